// Draws on a CUDA device are the sampler's: token, sum, largest, top list, for vocabularies of every size, ties,
// infinities, NaN rows among others, and every filter.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "bits/attention/harness.h"
#include "bits/cuda/device_memory.h"
#include "kernels/cuda/sampler/draw.h"
#include "sampler/device_draw.h"
#include "sampler/sampler.h"

namespace eadem::test {
namespace {

using kernels::DeviceDraw;
using kernels::DeviceDrawn;
namespace cuda = kernels::cuda;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

enum class Logits { kOrdinary, kFlat, kTies, kPeaked, kMasked, kZeros, kHuge };
const Logits kAllLogits[] = {Logits::kOrdinary, Logits::kFlat,  Logits::kTies, Logits::kPeaked,
                             Logits::kMasked,   Logits::kZeros, Logits::kHuge};

std::vector<float> make_logits(int vocab, Logits kind, uint64_t seed) {
  Random random(seed);
  std::vector<float> x;
  for (int i = 0; i < vocab; ++i) {
    const float normal = random.normal();
    switch (kind) {
      case Logits::kOrdinary: x.push_back(3 * normal); break;
      case Logits::kFlat: x.push_back(0.01f * normal); break;
      case Logits::kTies: x.push_back(static_cast<float>(random.below(7))); break;
      case Logits::kPeaked: x.push_back(random.below(500) == 0 ? 30 + normal : normal); break;
      case Logits::kMasked: x.push_back(random.below(3) != 0 && i != vocab / 2 ? -kInfinity : 2 * normal); break;
      case Logits::kZeros: x.push_back(random.below(2) != 0 ? -0.0f : 0.0f); break;
      case Logits::kHuge: x.push_back(normal * 1e30f); break;
    }
  }
  return x;
}

struct Row {
  std::vector<float> logits;
  SamplingParams params;
  uint64_t seed = 0;
  int64_t position = 0;
  int32_t forced = -1;
  int logprobs = 0;

  sampler::Draw draw() const {
    sampler::Draw d;
    d.logits = logits.data();
    d.params = &params;
    d.seed = seed;
    d.position = position;
    d.forced = forced;
    d.logprobs = logprobs;
    return d;
  }
};

std::vector<DeviceDrawn> device_draws(const std::vector<Row>& rows, int vocab) {
  std::vector<float> logits;
  std::vector<DeviceDraw> draws;
  for (const Row& row : rows) {
    logits.insert(logits.end(), row.logits.begin(), row.logits.end());
    draws.push_back(sampler::device_draw(row.draw(), vocab));
  }
  const int count = static_cast<int>(rows.size());
  const DeviceArray<float> dlogits(logits);
  const DeviceArray<DeviceDraw> ddraws(draws);
  const DeviceArray<DeviceDrawn> drawn(rows.size());
  const DeviceArray<std::byte> scratch(cuda::draw_scratch_bytes(count, vocab));
  EADEM_CHECK(cudaMemset(scratch.data(), 0xee, cuda::draw_scratch_bytes(count, vocab)) == cudaSuccess);
  cuda::draw(nullptr, dlogits.data(), count, vocab, ddraws.data(), drawn.data(), scratch.data());
  finish_kernels();
  return drawn.host();
}

std::string describe(const Row& row) {
  char text[200];
  std::snprintf(text, sizeof text, "T %g top_k %d top_p %g min_p %g forced %d top %d seed %llu",
                static_cast<double>(row.params.temperature), row.params.top_k, static_cast<double>(row.params.top_p),
                static_cast<double>(row.params.min_p), row.forced, row.logprobs,
                static_cast<unsigned long long>(row.seed));
  return text;
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// Empty where the device's outcome is the sampler's.
std::string difference(const Row& row, const DeviceDrawn& drawn, sampler::Sampler& sampler, int vocab) {
  const auto expected = sampler.draw(row.draw());
  const auto got = sampler::read_drawn(row.draw(), drawn);
  if (expected.ok() != got.ok()) return "faults differ";
  const kernels::LogSum sum = kernels::best_kernel_set().log_sum(row.logits.data(), vocab);
  if (!same_bits(sum.max, drawn.max)) return "max " + std::to_string(drawn.max) + ", not " + std::to_string(sum.max);
  if (!same_bits(sum.sum, drawn.sum)) return "sum " + std::to_string(drawn.sum) + ", not " + std::to_string(sum.sum);
  if (!expected.ok()) return drawn.token == -1 ? "" : "a token where there is none";
  const SampledToken &a = expected.value(), &b = got.value();
  if (a.token != b.token) return "token " + std::to_string(b.token) + ", not " + std::to_string(a.token);
  if (!same_bits(a.logprob, b.logprob)) return "logprob";
  if (!same_bits(drawn.logit, row.logits[static_cast<size_t>(a.token)])) return "logit";
  if (a.top.size() != b.top.size())
    return "length of the list: " + std::to_string(b.top.size()) + ", not " + std::to_string(a.top.size());
  for (size_t i = 0; i < a.top.size(); ++i) {
    if (a.top[i].token != b.top[i].token || !same_bits(a.top[i].logprob, b.top[i].logprob))
      return "top " + std::to_string(i);
  }
  return "";
}

void check(const std::vector<Row>& rows, int vocab) {
  sampler::Sampler sampler(kernels::best_kernel_set(), vocab);
  const auto drawn = device_draws(rows, vocab);
  int differing = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::string fault = difference(rows[r], drawn[r], sampler, vocab);
    if (!fault.empty() && differing++ < 3)
      ADD_FAILURE() << "vocab " << vocab << " row " << r << ": " << fault << "; " << describe(rows[r]);
  }
  EXPECT_EQ(differing, 0) << "of " << rows.size();
}

SamplingParams params_of(float temperature, int top_k, float top_p, float min_p) {
  SamplingParams p;
  p.temperature = temperature, p.top_k = top_k, p.top_p = top_p, p.min_p = min_p;
  return p;
}

std::vector<SamplingParams> all_params(int vocab) {
  std::vector<SamplingParams> list = {params_of(0, 0, 1, 0), params_of(0, 5, 0.5f, 0.1f)};
  for (float temperature : {1.0f, 0.7f, 1.3f, 1e-5f, 20.0f}) {
    list.push_back(params_of(temperature, 0, 1, 0));
    for (int top_k : {1, 2, 7, 50, 600, vocab - 1}) {
      if (top_k > 0) list.push_back(params_of(temperature, top_k, 1, 0));
    }
    for (float top_p : {0.95f, 0.5f, 1e-6f, 0.999f}) list.push_back(params_of(temperature, 0, top_p, 0));
    for (float min_p : {0.05f, 1.0f, 1e-9f}) list.push_back(params_of(temperature, 0, 1, min_p));
    list.push_back(params_of(temperature, 40, 0.9f, 0));
    list.push_back(params_of(temperature, 40, 0.9f, 0.02f));
    list.push_back(params_of(temperature, 0, 0.9f, 0.2f));
    list.push_back(params_of(temperature, 1000, 0.99f, 0));
  }
  return list;
}

TEST(CudaDraw, EveryFilterOnEveryKindOfRow) {
  for (int vocab : {1, 2, 3, 5, 31, 255, 256, 257, 1000, 4099, 32000, 49152}) {
    std::vector<Row> rows;
    uint64_t seed = 1;
    for (const SamplingParams& params : all_params(vocab)) {
      for (Logits kind : kAllLogits) {
        if (vocab > 10000 && seed % 3 != 0) {
          ++seed;
          continue;
        }
        Row row;
        row.logits = make_logits(vocab, kind, seed);
        row.params = params;
        row.seed = seed * 0x9E3779B97F4A7C15u;
        row.position = static_cast<int64_t>(seed % 5000);
        row.logprobs = static_cast<int>(seed % 22) - 1 > 20 ? 20 : static_cast<int>(seed % 22) - 1;
        ++seed;
        rows.push_back(std::move(row));
      }
    }
    check(rows, vocab);
  }
}

// Many draws of one row: every seed its own winner.
TEST(CudaDraw, Races) {
  for (int vocab : {1000, 49152, 151936}) {
    for (Logits kind : {Logits::kOrdinary, Logits::kFlat, Logits::kTies}) {
      const auto logits = make_logits(vocab, kind, 3);
      std::vector<Row> rows(vocab > 100000 ? 40 : 150);
      for (size_t r = 0; r < rows.size(); ++r) {
        rows[r].logits = logits;
        rows[r].params = params_of(r % 2 ? 1.0f : 0.8f, 0, 1, 0);
        rows[r].seed = r * 77 + 5;
        rows[r].position = static_cast<int64_t>(r % 3);
      }
      check(rows, vocab);
    }
  }
}

TEST(CudaDraw, LargeVocabularies) {
  for (int vocab : {65535, 65536, 65537, 128256, 131072, 131073, 151936, 151937, 262144}) {
    std::vector<Row> rows;
    for (const SamplingParams& params :
         {params_of(0, 0, 1, 0), params_of(1, 0, 1, 0), params_of(0.7f, 0, 0.9f, 0), params_of(0.7f, 50, 1, 0),
          params_of(1.2f, 0, 1, 0.05f), params_of(0.9f, 100, 0.95f, 0.01f), params_of(1, 0, 0.99f, 0)}) {
      for (Logits kind : kAllLogits) {
        Row row;
        row.logits = make_logits(vocab, kind, rows.size());
        row.params = params;
        row.seed = rows.size();
        row.logprobs = static_cast<int>(rows.size() % 3) * 10;
        rows.push_back(std::move(row));
      }
    }
    check(rows, vocab);
  }
}

TEST(CudaDraw, BadAndForcedRowsAmongOthers) {
  const int vocab = 5003;
  std::vector<Row> rows(40);
  for (size_t r = 0; r < rows.size(); ++r) {
    Row& row = rows[r];
    row.logits = make_logits(vocab, Logits::kOrdinary, r);
    row.params = params_of(r % 4 ? 1.0f : 0.0f, r % 3 ? 0 : 30, 1, 0);
    row.seed = r;
    row.logprobs = 3;
    if (r % 8 == 1) row.logits[r * 100] = __builtin_nanf("");
    if (r % 8 == 2) row.logits[r * 100] = kInfinity;
    if (r % 8 == 3) row.logits.assign(static_cast<size_t>(vocab), -kInfinity);
    if (r % 8 == 4) row.forced = static_cast<int32_t>(r * 31);
    if (r % 8 == 5) row.logits[7] = kInfinity, row.logits[9] = __builtin_nanf("");
  }
  check(rows, vocab);
}

TEST(CudaDraw, NegativeControl) {
  const int vocab = 4096;
  std::vector<Row> rows(64);
  for (size_t r = 0; r < rows.size(); ++r)
    rows[r] = {make_logits(vocab, Logits::kFlat, r), params_of(1, 0, 1, 0), r, 5, -1, 0};
  const auto drawn = device_draws(rows, vocab);
  sampler::Sampler sampler(kernels::best_kernel_set(), vocab);
  int differing = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    rows[r].position = 6;  // the noise of another position
    differing += !difference(rows[r], drawn[r], sampler, vocab).empty();
  }
  EXPECT_GT(differing, 60);
}

}  // namespace
}  // namespace eadem::test
