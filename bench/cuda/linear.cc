// Linear layers of the CUDA device beside cuBLAS in the same run, at Qwen3-8B's shapes:
//   bench_cuda_linear OUT.json [plans] [mma16|fma32|int8 [ROWS ...]]   (EADEM_CUBLASLT: where libcublasLt.so.13 is)
// Each kernel runs 24 times (the head 6) in a graph, over copies of the weights that do not fit the second-level cache
// together; the median of seven replays counts. All shapes' few rows come before the first one's many, which heat the
// device as no decode does. `plans`: for up to 64 rows every legal plan that keeps the processors busy, not the chosen
// one alone.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "cuda/cublas.h"
#include "cuda/timing.h"
#include "kernels/cuda/linear/linear.h"
#include "kernels/cuda/linear/stream.h"

namespace eadem::kernels::cuda {
namespace {

using bench::Cublas;
using bench::time_us;

constexpr int kReplays = 7;
constexpr size_t kRotated = 320u << 20;  // bytes of weights

// ---- Data -----------------------------------------------------------------------------------------------------------

std::byte* device_bytes(size_t bytes) {
  void* data = nullptr;
  CHECK_CUDA(cudaMalloc(&data, bytes));
  return static_cast<std::byte*>(data);
}

// Fills device memory with bf16 numbers around one, of both signs, or with any bytes.
void fill(std::byte* to, size_t bytes, bool operands) {
  static std::vector<uint16_t> random[2];
  std::vector<uint16_t>& values = random[operands ? 1 : 0];
  if (values.empty()) {
    uint64_t state = 88172645463325252u;
    values.resize(8u << 20);
    for (uint16_t& v : values) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      const auto bits = static_cast<uint16_t>(state >> 32);
      v = operands ? static_cast<uint16_t>((bits & 0x80ffu) | (0x3d00u + (bits & 0x0200u))) : bits;
    }
  }
  size_t done = std::min(bytes, values.size() * 2);
  CHECK_CUDA(cudaMemcpy(to, values.data(), done, cudaMemcpyHostToDevice));
  for (; done < bytes; done = std::min(bytes, 2 * done)) {
    CHECK_CUDA(cudaMemcpy(to + done, to, std::min(done, bytes - done), cudaMemcpyDeviceToDevice));
  }
}

struct Case {
  const char* name;
  int n, k, shards;
};
constexpr Case kCases[] = {{"qkv", 6144, 4096, 1},
                           {"o", 4096, 4096, 8},
                           {"gate_up", 24576, 4096, 1},
                           {"down", 4096, 12288, 8},
                           {"head", 151936, 4096, 1}};

LinearShape shape_of(const Case& c, Numerics numerics) {
  LinearShape s;
  s.numerics = numerics, s.n = c.n, s.k = s.k_padded = c.k, s.shards = c.shards;
  s.group = numerics == Numerics::kInt8 ? 128 : 32;
  return s;
}

// ---- One shape ------------------------------------------------------------------------------------------------------

class Bench {
 public:
  // only: the numerics to run; empty: all.
  Bench(const Cublas& cublas, FILE* json, bool all_plans, std::string only)
      : cublas_(cublas), json_(json), all_plans_(all_plans), only_(std::move(only)) {
    cudaDeviceProp properties;
    CHECK_CUDA(cudaGetDeviceProperties(&properties, 0));
    facts_.processors = properties.multiProcessorCount;
    CHECK_CUDA(cudaStreamCreate(&stream_));
  }

  void run(const Case& c, const std::vector<int>& rows) {
    std::vector<double> peer;
    launches_ = c.n > 100000 ? 6 : 24;
    const int most = *std::max_element(rows.begin(), rows.end());
    x_ = device_bytes(static_cast<size_t>(most) * static_cast<size_t>(c.k) * 2);
    y_ = reinterpret_cast<float*>(device_bytes(static_cast<size_t>(most) * static_cast<size_t>(c.n) * 4));
    fill(x_, static_cast<size_t>(most) * static_cast<size_t>(c.k) * 2, true);
    with_weights(static_cast<size_t>(c.n) * static_cast<size_t>(c.k) * 2, true, [&](const auto& weights) {
      for (const int m : rows) {
        peer.push_back(time_us(stream_, launches_, kReplays, [&](cudaStream_t s, int i) {
          cublas_.run(s, m, c.n, c.k, x_, weights[static_cast<size_t>(i) % weights.size()], y_, true, false);
        }));
      }
    });
    for (const Numerics numerics : numerics::kAllNumerics) {
      if (!only_.empty() && only_ != short_name(numerics)) continue;
      const LinearShape shape = shape_of(c, numerics);
      scratch_ = device_bytes(linear_scratch_bytes(shape, most) + 256);
      with_weights(linear_bytes(shape), numerics != Numerics::kInt8, [&](const auto& weights) {
        for (size_t i = 0; i < rows.size(); ++i) {
          if (numerics == Numerics::kFma32 && rows[i] > 8) continue;
          measure(c, shape, weights, rows[i], peer[i]);
        }
      });
      CHECK_CUDA(cudaFree(scratch_));
    }
    CHECK_CUDA(cudaFree(x_));
    CHECK_CUDA(cudaFree(y_));
  }

  void summary() const {
    for (const Numerics n : numerics::kAllNumerics) {
      const auto i = static_cast<size_t>(n);
      if (count_[i] == 0) continue;
      std::printf("%s: geometric mean %.3f of cuBLAS's time over %d cells\n", std::string(short_name(n)).c_str(),
                  std::exp(log_sum_[i] / count_[i]), count_[i]);
    }
  }

 private:
  using Weights = std::vector<std::byte*>;

  // Copies of a matrix of `bytes`, as many as outgrow the cache.
  void with_weights(size_t bytes, bool operands, const std::function<void(const Weights&)>& use) {
    Weights weights(std::max<size_t>(2, kRotated / bytes + 1));
    for (std::byte*& w : weights) {
      w = device_bytes(bytes);
      fill(w, bytes, operands);
    }
    use(weights);
    for (std::byte* w : weights) CHECK_CUDA(cudaFree(w));
  }

  void measure(const Case& c, const LinearShape& shape, const Weights& weights, int rows, double peer) {
    LinearCall call;
    call.shape = &shape;
    call.x.operands = reinterpret_cast<const uint16_t*>(x_);
    call.y = y_, call.y_stride = c.n;
    const auto time = [&](const LinearPlan* plan) {
      return time_us(stream_, launches_, kReplays, [&](cudaStream_t s, int i) {
        call.weights = weights[static_cast<size_t>(i) % weights.size()];
        if (plan == nullptr) {
          linear(s, facts_, call, rows, scratch_);
        } else {
          linear_planned(s, *plan, call, rows, facts_.processors, scratch_);
        }
      });
    };
    const LinearPlan chosen = plan_linear(shape, rows, facts_.processors);
    const double us = time(nullptr);
    report(c, shape, rows, peer, us, chosen, "chosen", linear_bytes(shape));
    log_sum_[static_cast<size_t>(shape.numerics)] += std::log(us / peer);
    count_[static_cast<size_t>(shape.numerics)] += 1;
    if (!all_plans_ || rows > 64) return;
    LinearPlan best = chosen;
    double least = us;
    for (const LinearPlan& plan : legal_linear_plans(shape, rows)) {
      if (plan.rows != chosen.rows || !busy(shape, plan)) continue;
      std::fflush(json_);
      const double t = time(&plan);
      report(c, shape, rows, peer, t, plan, "plan", linear_bytes(shape));
      if (t < least) least = t, best = plan;
    }
    report(c, shape, rows, peer, least, best, "best", linear_bytes(shape));
  }

  // Whether the last round of CTAs leaves no more than a third of the processors' time unused.
  bool busy(const LinearShape& shape, const LinearPlan& plan) const {
    const int slots = std::max(1, facts_.processors * plan.residents / plan.split), outputs = plan.item_outputs();
    const int items = (shape.n + outputs - 1) / outputs, rounds = (items + slots - 1) / slots;
    return 3LL * shape.n >= 2LL * rounds * slots * outputs;
  }

  void report(const Case& c, const LinearShape& shape, int rows, double peer, double us, const LinearPlan& p,
              const char* what, size_t bytes) const {
    const std::string name(short_name(shape.numerics));
    if (strcmp(what, "plan") != 0) {
      std::printf("%-8s %-5s M=%-4d cuBLAS %7.1f us, %-6s %7.1f us = %.3f, %4.0f GB/s  r%d w%d o%d k%d p%d g%d%s\n",
                  c.name, name.c_str(), rows, peer, what, us, us / peer, static_cast<double>(bytes) / us / 1e3, p.rows,
                  p.warpgroups, p.outputs, p.split, p.residents, p.row_groups, p.own_rows > 0 ? " own" : "");
    }
    std::fprintf(json_,
                 "{\"shape\": \"%s\", \"n\": %d, \"k\": %d, \"shards\": %d, \"numerics\": \"%s\", \"rows\": %d, "
                 "\"cublas_us\": %.2f, \"us\": %.2f, \"what\": \"%s\", \"plan\": [%d, %d, %d, %d, %d, %d, %d]}\n",
                 c.name, c.n, c.k, c.shards, name.c_str(), rows, peer, us, what, p.rows, p.warpgroups, p.outputs,
                 p.split, p.residents, p.row_groups, p.own_rows);
  }

  const Cublas& cublas_;
  FILE* json_;
  bool all_plans_;
  std::string only_;
  int launches_ = 24;
  DeviceFacts facts_;
  cudaStream_t stream_ = nullptr;
  std::byte *x_ = nullptr, *scratch_ = nullptr;
  float* y_ = nullptr;
  double log_sum_[3] = {};
  int count_[3] = {};
};

}  // namespace
}  // namespace eadem::kernels::cuda

int main(int argc, char** argv) {
  using namespace eadem::kernels::cuda;
  FILE* json = argc < 2 ? nullptr : std::fopen(argv[1], "w");
  if (json == nullptr) {
    std::fprintf(stderr, "usage: bench_cuda_linear OUT.json [plans] [mma16|fma32|int8 [ROWS ...]]\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const bool plans = argc > 2 && strcmp(argv[2], "plans") == 0;
  const int numerics_at = plans ? 3 : 2;
  const std::string only = argc > numerics_at ? argv[numerics_at] : "";
  const Cublas cublas;
  Bench bench(cublas, json, plans, only);
  std::vector<int> few, many;
  for (int i = numerics_at + 1; i < argc; ++i) few.push_back(std::atoi(argv[i]));
  if (few.empty()) {
    few = {1, 8, 16, 32, 64};
    if (!plans) many = {128, 256, 512, 1024, 2048, 4096};
  }
  for (const std::vector<int>& rows : {few, many}) {
    if (rows.empty()) continue;
    for (const Case& c : kCases) bench.run(c, rows);
  }
  bench.summary();
  std::fclose(json);
  return 0;
}
