// What lies between the linear layers on a CUDA device, beside the rate at which its memory is read:
// bench_cuda_rows OUT.json [attention|rows|draw]. Shapes of Qwen3-8B: hidden 4096, 32 query and 8 KV heads of 128,
// MLP 12288, vocabulary 151936. Inputs do not fit the second-level cache, or are rotated so that they do not.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/read_rate.h"
#include "cuda/timing.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/layout.h"
#include "kernels/cuda/rows/rows.h"
#include "kernels/cuda/sampler/draw.h"
#include "numerics/operand.h"

namespace eadem::bench {
namespace {

using kernels::Numerics;
namespace cuda = kernels::cuda;

constexpr int kLaunches = 16, kReplays = 7;
constexpr size_t kPastCache = size_t{200} << 20;  // bytes that a rotation of inputs covers at least

// Device memory for the life of the program, filled with bf16 or float32 numbers around one of both signs.
template <class T>
T* device_array(size_t n) {
  void* data = nullptr;
  CHECK_CUDA(cudaMalloc(&data, n * sizeof(T)));
  CHECK_CUDA(cudaMemset(data, 0, n * sizeof(T)));
  return static_cast<T*>(data);
}
template <class T>
T* device_copy(const std::vector<T>& host) {
  T* data = device_array<T>(host.size());
  CHECK_CUDA(cudaMemcpy(data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return data;
}
template <class T>
T* device_noise(size_t n) {
  static std::vector<T> noise;
  if (noise.empty()) {
    uint64_t state = 88172645463325252u;
    noise.resize(size_t{4} << 20);
    for (T& x : noise) {
      float sum = 0;
      for (int i = 0; i < 3; ++i) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        sum += static_cast<float>(state >> 40) * 0x1p-23f - 1.0f;
      }
      if constexpr (sizeof(T) == 2) {
        x = numerics::bf16_operand(sum);
      } else {
        x = sum * 3.0f;
      }
    }
  }
  T* data = device_array<T>(n);
  for (size_t done = 0; done < n; done += noise.size()) {
    const size_t piece = std::min(n - done, noise.size());
    CHECK_CUDA(cudaMemcpy(data + done, noise.data(), piece * sizeof(T), cudaMemcpyHostToDevice));
  }
  return data;
}

class Report {
 public:
  explicit Report(const char* path) : file_(std::fopen(path, "w")) {
    EADEM_CHECK(file_ != nullptr);
    std::fprintf(file_, "[");
  }
  ~Report() {
    std::fprintf(file_, "\n]\n");
    std::fclose(file_);
  }
  // bytes: what the kernel must read and write at least; 0 where that says nothing.
  void add(const std::string& name, double us, double bytes) {
    const double rate = bytes / us * 1e-3;
    std::fprintf(file_, "%s\n  {\"name\": \"%s\", \"us\": %.3f, \"GB/s\": %.1f, \"of_read_rate\": %.3f}",
                 first_ ? "" : ",", name.c_str(), us, rate, read_rate > 0 ? rate / read_rate : 0.0);
    std::printf("%-44s %9.2f us  %7.1f GB/s  %5.3f\n", name.c_str(), us, rate, read_rate > 0 ? rate / read_rate : 0.0);
    std::fflush(stdout);
    first_ = false;
  }
  double read_rate = 0;  // GB/s

 private:
  std::FILE* file_;
  bool first_ = true;
};

struct Bench {
  cudaStream_t stream;
  kernels::DeviceFacts facts;
  Report& report;

  double time(const std::function<void(cudaStream_t, int)>& call, int launches = kLaunches) const {
    return time_us(stream, launches, kReplays, call);
  }
};

void bench_memory(Bench& b) {
  const size_t bytes = size_t{2} << 30;
  auto* from = device_array<std::byte>(bytes);
  auto* to = device_array<std::byte>(bytes);
  auto* sink = device_array<unsigned>(1);
  const double copy =
      b.time([&](cudaStream_t s, int) { cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s); }, 2);
  const double read = b.time([&](cudaStream_t s, int) { read_all(s, from, bytes, b.facts.processors, sink); }, 4);
  b.report.read_rate = static_cast<double>(bytes) / read * 1e-3;
  b.report.add("read 2 GiB", read, static_cast<double>(bytes));
  b.report.add("copy 2 GiB (read and written)", copy, 2.0 * static_cast<double>(bytes));
  CHECK_CUDA(cudaFree(from));
  CHECK_CUDA(cudaFree(to));
}

// ---- Attention ------------------------------------------------------------------------------------------------------

struct AttentionCase {
  Numerics tree;
  int batch;
  int64_t context;
  int heads, kv_heads, head_size;
};

void bench_attention(Bench& b, const AttentionCase& c, std::byte* pool, size_t pool_bytes) {
  kernels::AttentionShape shape;
  shape.numerics = c.tree, shape.heads = c.heads, shape.kv_heads = c.kv_heads;
  shape.head_size = shape.head_padded = c.head_size;
  shape.c = 1.4426950408889634f / 11.3137085f;
  const size_t head_bytes = cuda::kv_bytes(shape), block_bytes = head_bytes * static_cast<size_t>(c.kv_heads);
  const int64_t blocks = (c.context + 63) / 64, all = static_cast<int64_t>(pool_bytes / block_bytes);
  const int copies = static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(kLaunches, all / (blocks * c.batch))));
  std::vector<int32_t> tables(static_cast<size_t>(copies * c.batch * blocks)), sequences;
  for (size_t i = 0; i < tables.size(); ++i) tables[i] = static_cast<int32_t>(static_cast<int64_t>(i) * 7919 % all);
  std::vector<int64_t> positions(static_cast<size_t>(c.batch), c.context - 1);
  std::vector<kernels::DeviceRun> runs;
  for (int r = 0; r < c.batch; ++r) sequences.push_back(r), runs.push_back({r, r, r + 1, c.context - 1, c.context - 1});
  auto* q = device_noise<uint16_t>(static_cast<size_t>(c.batch * c.heads * c.head_size));
  auto* out = device_array<uint16_t>(static_cast<size_t>(c.batch * c.heads * c.head_size));
  auto* scratch = device_array<std::byte>(cuda::attention_scratch_bytes(b.facts, shape, c.batch, c.context));
  auto* dtables = device_copy(tables);
  auto* dsequences = device_copy(sequences);
  auto* dpositions = device_copy(positions);
  auto* bad = device_array<bool>(static_cast<size_t>(c.batch));
  const double us = b.time([&](cudaStream_t stream, int i) {
    kernels::DeviceAttentionCall call;
    call.q = q, call.positions = dpositions, call.sequences = dsequences, call.rows = c.batch;
    call.runs = runs.data(), call.run_count = c.batch;
    call.kv = {pool, dtables + i % copies * c.batch * blocks, blocks, block_bytes, head_bytes};
    call.out = out, call.out_stride = c.heads * c.head_size, call.bad = bad;
    cuda::attention(stream, b.facts, shape, call, c.batch, c.context, scratch);
  });
  char name[120];
  std::snprintf(name, sizeof name, "attention %s %d/%d x %d batch %d context %lld",
                c.tree == Numerics::kMma16 ? "mma16" : "fma32", c.heads, c.kv_heads, c.head_size, c.batch,
                static_cast<long long>(c.context));
  b.report.add(name, us, static_cast<double>(c.batch * blocks) * static_cast<double>(block_bytes));
  for (void* p :
       {static_cast<void*>(q), static_cast<void*>(out), static_cast<void*>(scratch), static_cast<void*>(dtables),
        static_cast<void*>(dsequences), static_cast<void*>(dpositions), static_cast<void*>(bad)}) {
    CHECK_CUDA(cudaFree(p));
  }
}

void bench_attention(Bench& b) {
  const size_t pool_bytes = size_t{5} << 30;
  auto* pool = reinterpret_cast<std::byte*>(device_noise<uint16_t>(pool_bytes / 2));
  for (Numerics tree : {Numerics::kMma16, Numerics::kFma32}) {
    for (const auto& [batch, context] : std::vector<std::pair<int, int64_t>>{
             {1, 128}, {1, 1024}, {1, 4096}, {1, 32768}, {16, 1024}, {64, 1024}, {64, 4096}, {64, 4000}, {200, 2048}}) {
      bench_attention(b, {tree, batch, context, 32, 8, 128}, pool, pool_bytes);
    }
    bench_attention(b, {tree, 64, 4096, 8, 8, 128}, pool, pool_bytes);
    bench_attention(b, {tree, 64, 4096, 32, 8, 64}, pool, pool_bytes);
    bench_attention(b, {tree, 64, 4096, 8, 4, 256}, pool, pool_bytes);
    bench_attention(b, {tree, 64, 4096, 64, 4, 128}, pool, pool_bytes);
  }
  CHECK_CUDA(cudaFree(pool));
}

// ---- Rows -----------------------------------------------------------------------------------------------------------

void bench_rows(Bench& b) {
  constexpr int kHidden = 4096, kMlp = 12288, kHeads = 32, kKvHeads = 8, kHead = 128, kMost = 8192;
  constexpr int kWidth = (kHeads + 2 * kKvHeads) * kHead;
  auto* x = device_noise<float>(size_t{kMost} * 2 * kMlp);
  auto* weight = device_noise<float>(kHidden);
  auto* y = device_array<uint16_t>(size_t{kMost} * kMlp);
  auto* h = device_array<float>(size_t{kMost} * kHidden);
  auto* table = device_noise<uint16_t>(size_t{151936} * kHidden);
  auto* bad = device_array<bool>(kMost);
  std::vector<int32_t> tokens(kMost), sequences(kMost), blocks(kMost);
  std::vector<int64_t> positions(kMost);
  for (int r = 0; r < kMost; ++r)
    tokens[static_cast<size_t>(r)] = r * 37 % 151936, positions[static_cast<size_t>(r)] = r % 64;
  for (int r = 0; r < kMost; ++r) sequences[static_cast<size_t>(r)] = r / 64, blocks[static_cast<size_t>(r)] = r;
  auto* dtokens = device_copy(tokens);
  auto* dsequences = device_copy(sequences);
  auto* dblocks = device_copy(blocks);
  auto* dpositions = device_copy(positions);
  kernels::AttentionShape attention;
  attention.head_size = attention.head_padded = kHead, attention.heads = kHeads, attention.kv_heads = kKvHeads;
  const size_t head_bytes = cuda::kv_bytes(attention);
  auto* kv = device_array<std::byte>(kMost / 64 * kKvHeads * head_bytes);
  const kernels::QkvShape shape{kHeads, kKvHeads, kHead, kHead, kHead, weight, weight, 1e-6f};
  kernels::DeviceQkvCall qkv;
  qkv.qkv = x, qkv.cosine = x, qkv.sine = x, qkv.positions = dpositions, qkv.sequences = dsequences;
  qkv.kv = {kv, dblocks, 1, kKvHeads * head_bytes, head_bytes}, qkv.q = y, qkv.bad = bad;
  for (int rows : {1, 16, 64, 512, 8192}) {
    const double r = rows;
    const std::string suffix = " rows " + std::to_string(rows);
    b.report.add("embed" + suffix,
                 b.time([&](cudaStream_t s, int) { cuda::embed(s, table, dtokens, nullptr, rows, kHidden, h); }),
                 r * kHidden * 6);
    b.report.add("rms_norm" + suffix, b.time([&](cudaStream_t s, int) {
      cuda::rms_norm(s, x, weight, rows, kHidden, kHidden, 1e-6f, y, bad);
    }),
                 r * kHidden * 6);
    b.report.add("split_qkv" + suffix,
                 b.time([&](cudaStream_t s, int) { cuda::split_qkv(s, shape, attention, qkv, rows); }),
                 r * (kWidth * 6 + kHead * 4));
    b.report.add("swiglu" + suffix, b.time([&](cudaStream_t s, int) { cuda::swiglu(s, x, rows, kMlp, kMlp, y, bad); }),
                 r * kMlp * 10);
    b.report.add("gather" + suffix,
                 b.time([&](cudaStream_t s, int) { cuda::gather(s, table, dtokens, rows, kHidden, y); }),
                 r * kHidden * 4);
  }
  for (void* p : {static_cast<void*>(x), static_cast<void*>(table), static_cast<void*>(y), static_cast<void*>(h)})
    CHECK_CUDA(cudaFree(p));
}

// ---- Draws ----------------------------------------------------------------------------------------------------------

void bench_draw(Bench& b) {
  constexpr int kVocab = 151936, kMost = 200;
  auto* logits = device_noise<float>(size_t{kMost} * kVocab);
  std::vector<float> host(size_t{kVocab});
  auto* flat = device_array<float>(size_t{kMost} * kVocab);
  CHECK_CUDA(cudaMemcpy(host.data(), logits, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
  for (float& l : host) l *= 0.1f;
  for (int r = 0; r < kMost; ++r) {
    CHECK_CUDA(cudaMemcpy(flat + size_t{kVocab} * static_cast<size_t>(r), host.data(), host.size() * sizeof(float),
                          cudaMemcpyHostToDevice));
  }
  auto* drawn = device_array<kernels::DeviceDrawn>(kMost);
  auto* scratch = device_array<std::byte>(cuda::draw_scratch_bytes(kMost, kVocab));
  struct Kind {
    const char* name;
    kernels::DeviceDraw draw;
    bool flat;
  };
  const Kind kinds[] = {{"greedy", {.temperature = 0}, false},
                        {"seeded", {.temperature = 1}, false},
                        {"seeded T 0.8", {.temperature = 0.8f}, false},
                        {"seeded flat logits", {.temperature = 1}, true},
                        {"top 20 listed, greedy", {.temperature = 0, .top = 20}, false},
                        {"top-k 50", {.temperature = 0.8f, .top_k = 50}, false},
                        {"top-p 0.9", {.temperature = 0.8f, .top_p = 0.9f}, false},
                        {"top-p 0.9 flat logits", {.temperature = 0.8f, .top_p = 0.9f}, true},
                        {"top-k 50 top-p 0.9", {.temperature = 0.8f, .top_p = 0.9f, .top_k = 50}, false}};
  for (int count : {1, 16, 64, 200}) {
    for (const Kind& kind : kinds) {
      std::vector<kernels::DeviceDraw> draws(static_cast<size_t>(count), kind.draw);
      for (size_t r = 0; r < draws.size(); ++r) draws[r].seed = r, draws[r].position = 100;
      auto* ddraws = device_copy(draws);
      const double us = b.time(
          [&](cudaStream_t s, int) { cuda::draw(s, kind.flat ? flat : logits, count, kVocab, ddraws, drawn, scratch); },
          4);
      b.report.add(std::string("draw ") + kind.name + " count " + std::to_string(count), us, 4.0 * count * kVocab);
      CHECK_CUDA(cudaFree(ddraws));
    }
  }
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s OUT.json [attention|rows|draw]\n", argv[0]);
    return 2;
  }
  Report report(argv[1]);
  Bench b{nullptr, {}, report};
  CHECK_CUDA(cudaStreamCreate(&b.stream));
  CHECK_CUDA(cudaDeviceGetAttribute(&b.facts.processors, cudaDevAttrMultiProcessorCount, 0));
  bench_memory(b);
  const auto wanted = [&](const char* part) { return argc < 3 || std::strcmp(argv[2], part) == 0; };
  if (wanted("attention")) bench_attention(b);
  if (wanted("rows")) bench_rows(b);
  if (wanted("draw")) bench_draw(b);
  return 0;
}

}  // namespace
}  // namespace eadem::bench

int main(int argc, char** argv) { return eadem::bench::run(argc, argv); }
