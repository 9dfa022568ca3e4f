// The kernels for many rows on a CUDA device, beside their peers in the same process: linear layers in the shapes of
// Qwen3-8B beside cuBLAS (opened at run time), and attention, whose peer is bench/peers/torch_attention.py.
//
//   bench_cuda_prefill linear|attention OUT.json [--reps N] [--rest MICROSECONDS] [--all] [--rows M] [--layers A,B]
//
// Numbers are normal-like, weights and activations of each cell lie in several copies that take turns and together are
// larger than the L2 cache; batches of the variants alternate; a time is the median. --rest idles before each batch, so
// that the card is not at its power limit. --all also times every tile that the plan passed over. --layers: of qkv, o,
// gate_up, down, lm_head, those to time.
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "cublas.h"
#include "kernels/cuda/attention/layout.h"
#include "kernels/cuda/attention/prefill.h"
#include "kernels/cuda/linear/layout.h"
#include "kernels/cuda/linear/wgmma.h"
#include "numerics/operand.h"

namespace {

using namespace eadem;
using bench::Cublas;

void ok(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

__device__ uint32_t hash_of(uint64_t x) {
  x ^= x >> 33, x *= 0xff51afd7ed558ccdULL, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ULL, x ^= x >> 33;
  return static_cast<uint32_t>(x);
}

// The sum of four uniform numbers: close enough to normal for a power draw like a model's.
__global__ void fill(uint16_t* to, size_t count, uint64_t seed, float scale) {
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    float sum = 0.0f;
    for (int k = 0; k < 4; ++k) sum += static_cast<float>(static_cast<int>(hash_of(4 * i + k + seed))) * 0x1p-31f;
    to[i] = numerics::bf16_operand(sum * 0.866f * scale);
  }
}

uint16_t* operands(size_t count, uint64_t seed, float scale) {
  uint16_t* data = nullptr;
  ok(cudaMalloc(&data, count * 2));
  fill<<<2048, 256>>>(data, count, seed, scale);
  return data;
}

struct Options {
  std::string what, out, layers;
  int reps = 9, rest = 0, rows = 0;
  bool all = false;
};

struct Variant {
  std::string name;
  std::function<void(int)> launch;  // of the copy with that number
  std::vector<float> times;
  float median() {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
};

// Microseconds of each variant, batches of about `batch` launches alternating.
void measure(std::vector<Variant>& variants, int batch, const Options& o) {
  cudaEvent_t begin, end;
  ok(cudaEventCreate(&begin));
  ok(cudaEventCreate(&end));
  int copy = 0;
  for (Variant& v : variants) {
    for (int i = 0; i < 2; ++i) v.launch(copy++);
  }
  ok(cudaDeviceSynchronize());
  for (int rep = 0; rep < o.reps; ++rep) {
    for (Variant& v : variants) {
      if (o.rest > 0) usleep(static_cast<unsigned>(o.rest));
      v.launch(copy++);
      ok(cudaEventRecord(begin));
      for (int i = 0; i < batch; ++i) v.launch(copy++);
      ok(cudaEventRecord(end));
      ok(cudaEventSynchronize(end));
      float ms = 0.0f;
      ok(cudaEventElapsedTime(&ms, begin, end));
      v.times.push_back(ms * 1e3f / static_cast<float>(batch));
    }
  }
  ok(cudaEventDestroy(begin));
  ok(cudaEventDestroy(end));
}

// ---- Linear layers --------------------------------------------------------------------------------------------------

struct Layer {
  const char* name;
  int n, k, shards;  // 8 shards: a row-parallel layer, whose result is added to the residual
};

// A layer's arrays: `copies` of each, one behind the other.
struct LayerData {
  kernels::LinearShape shape;
  int copies;
  size_t x_count, w_count, y_count;
  uint16_t *x, *w;
  float* y;
};

// A launch of our kernel with that plan. pad: added to y's stride.
Variant ours(const LayerData& d, const char* name, kernels::cuda::WgmmaPlan plan, int rows, int processors, bool add,
             int pad) {
  std::string title = std::string(name) + " n" + std::to_string(plan.columns);
  title += std::string(plan.split ? " split" : "");
  return {title,
          [=, &d](int i) {
            const size_t copy = static_cast<size_t>(i % d.copies);
            kernels::LinearCall call;
            call.shape = &d.shape;
            call.weights = reinterpret_cast<const std::byte*>(d.w + copy * d.w_count);
            call.x.operands = d.x + copy * d.x_count;
            call.y = d.y + copy * d.y_count;
            call.y_stride = d.shape.n + pad;
            call.add_to_y = add;
            kernels::cuda::linear_wgmma(nullptr, call, rows, processors, plan);
          },
          {}};
}

// What the plan passed over, and the plan's tile without its residual or without boxes.
void add_others(std::vector<Variant>& variants, const LayerData& d, int rows, int processors) {
  const bool tree = d.shape.shards > 1;
  for (int columns : {48, 64, 96, 128, 192, 256}) {
    for (bool split : {false, true}) {
      const kernels::cuda::WgmmaPlan plan{columns, split};
      const long blocks = static_cast<long>((rows + 127) / 128) * ((d.shape.n + columns - 1) / columns);
      const bool possible = tree ? columns == 128 || (columns == 64 && split) : !split;
      if (!possible || (split && 2 * blocks > processors)) continue;
      if (blocks < processors / 3 || blocks > 24L * processors) continue;
      variants.push_back(ours(d, "tile", plan, rows, processors, tree, 0));
      if (tree && !split) variants.push_back(ours(d, "no residual", plan, rows, processors, false, 0));
    }
  }
  const auto plan = kernels::cuda::plan_wgmma(d.shape.n, rows, d.shape.shards, processors);
  variants.push_back(ours(d, "no boxes", plan, rows, processors, tree, 2));
}

void report(const char* layer, int rows, double flops, std::vector<Variant>& variants, const Options& o, FILE* out) {
  const float peer = variants[1].median();
  for (Variant& v : variants) {
    const float us = v.median();
    std::fprintf(out,
                 "{\"op\":\"linear\",\"layer\":\"%s\",\"rows\":%d,\"variant\":\"%s\",\"us\":%.2f,\"tflops\":%.1f,"
                 "\"ratio\":%.3f,\"rest\":%d}\n",
                 layer, rows, v.name.c_str(), us, flops / us * 1e-6, us / peer, o.rest);
  }
  std::printf("%-8s %5d  cublas f32 %7.1f us %6.1f TF  bf16 %7.1f us  ours %7.1f us  %5.3f [%s]", layer, rows, peer,
              flops / peer * 1e-6, variants[0].median(), variants[2].median(), variants[2].median() / peer,
              variants[2].name.c_str());
  if (o.all) {
    for (size_t i = 3; i < variants.size(); ++i) {
      std::printf("%s%.3f %s", i == 3 ? "  " : ", ", variants[i].median() / peer, variants[i].name.c_str());
    }
  }
  std::printf("\n");
  std::fflush(stdout);
}

// The cells of a layer: every M.
void bench_layer(const Layer& layer, const Options& o, Cublas& cublas, FILE* out, int processors) {
  LayerData d;
  d.shape = {numerics::Numerics::kMma16, layer.n, layer.k, layer.k, layer.shards};
  d.w_count = static_cast<size_t>(layer.n) * layer.k;
  d.copies = d.w_count > (size_t{300} << 20) ? 1 : d.w_count > (size_t{50} << 20) ? 2 : 4;
  const int most = layer.n > 100000 ? 1024 : 8192;
  d.x_count = static_cast<size_t>(most) * layer.k;
  d.y_count = static_cast<size_t>(most) * static_cast<size_t>(layer.n + 2);
  const size_t copies = static_cast<size_t>(d.copies);
  d.w = operands(d.w_count * copies, 1, 0.05f);
  d.x = operands(d.x_count * copies, 2, 1.0f);
  ok(cudaMalloc(&d.y, d.y_count * copies * sizeof(float)));
  ok(cudaMemset(d.y, 0, d.y_count * copies * sizeof(float)));
  const bool tree = layer.shards > 1;
  for (int m : {65, 128, 192, 256, 384, 512, 1024, 2048, 4096, 8192}) {
    const bool asked = m == 128 || m == 256 || m >= 512 || o.all;
    if (m > most || (o.rows != 0 ? o.rows != m : !asked)) continue;
    std::vector<Variant> variants;
    for (bool f32 : {false, true}) {
      variants.push_back({f32 ? "cublas_f32" : "cublas_bf16",
                          [&, f32](int i) {
                            const size_t copy = static_cast<size_t>(i % d.copies);
                            cublas.run(nullptr, m, layer.n, layer.k, d.x + copy * d.x_count, d.w + copy * d.w_count,
                                       d.y + copy * d.y_count, f32, f32 && tree);
                          },
                          {}});
    }
    variants.push_back(
        ours(d, "eadem", kernels::cuda::plan_wgmma(layer.n, m, layer.shards, processors), m, processors, tree, 0));
    if (o.all) add_others(variants, d, m, processors);
    const double flops = 2.0 * m * layer.n * layer.k;
    measure(variants, std::max(2, std::min(40, static_cast<int>(2e-3 / (flops / 600e12)))), o);
    report(layer.name, m, flops, variants, o, out);
  }
  for (void* p : {static_cast<void*>(d.w), static_cast<void*>(d.x), static_cast<void*>(d.y)}) ok(cudaFree(p));
}

// Whether a list separated by commas names the layer; an empty one names all.
bool is_asked(const std::string& layers, const std::string& name) {
  std::istringstream list(layers);
  bool found = layers.empty();
  for (std::string one; std::getline(list, one, ',');) found |= one == name;
  return found;
}

void bench_linear(const Options& o, FILE* out, int processors) {
  Cublas cublas;
  for (const Layer& layer : {Layer{"qkv", 6144, 4096, 1}, Layer{"o", 4096, 4096, 8}, Layer{"gate_up", 24576, 4096, 1},
                             Layer{"down", 4096, 12288, 8}, Layer{"lm_head", 151936, 4096, 1}}) {
    if (is_asked(o.layers, layer.name)) bench_layer(layer, o, cublas, out, processors);
  }
}

// ---- Attention ------------------------------------------------------------------------------------------------------

struct Batch {
  int sequences, length, head;
};

void bench_attention(const Options& o, FILE* out, int processors) {
  for (const Batch& b :
       {Batch{8, 2048, 128}, Batch{2, 8192, 128}, Batch{1, 16384, 128}, Batch{2, 8192, 64}, Batch{2, 8192, 256}}) {
    const int heads = b.head == 256 ? 16 : 32, kv_heads = 8, rows = b.sequences * b.length, blocks = b.length / 64;
    kernels::AttentionShape shape{numerics::Numerics::kMma16,
                                  heads,
                                  kv_heads,
                                  b.head,
                                  b.head,
                                  static_cast<float>(1.4426950408889634 / std::sqrt(b.head)),
                                  0};
    const size_t q_count = static_cast<size_t>(rows) * heads * b.head;
    const size_t image = static_cast<size_t>(kernels::cuda::kv_image_bytes(b.head));
    uint16_t *q = operands(q_count, 3, 1.0f), *result = operands(q_count, 4, 1.0f);
    uint16_t* kv = operands(image * static_cast<size_t>(blocks * b.sequences * kv_heads), 5, 1.0f);
    std::vector<int32_t> tables;
    for (int i = 0; i < blocks * b.sequences; ++i) tables.push_back(i * 37 % (blocks * b.sequences));
    std::vector<kernels::DeviceRun> runs;
    for (int s = 0; s < b.sequences; ++s) runs.push_back({s, s * b.length, (s + 1) * b.length, 0, b.length - 1});
    int32_t* table = nullptr;
    bool* bad = nullptr;
    void* scratch = nullptr;
    ok(cudaMalloc(&table, tables.size() * 4));
    ok(cudaMemcpy(table, tables.data(), tables.size() * 4, cudaMemcpyHostToDevice));
    ok(cudaMalloc(&bad, static_cast<size_t>(rows)));
    ok(cudaMalloc(&scratch, kernels::cuda::prefill_scratch_bytes(shape, processors)));
    kernels::DeviceAttentionCall call;
    call.q = q, call.rows = rows, call.runs = runs.data(), call.run_count = b.sequences;
    call.kv = {reinterpret_cast<std::byte*>(kv), table, blocks, 2 * image * kv_heads, 2 * image};
    call.out = result, call.out_stride = heads * b.head, call.bad = bad;
    std::vector<Variant> variants;
    variants.push_back({"eadem",
                        [&](int) {
                          kernels::cuda::attention_prefill(nullptr, shape, call, runs.data(), b.sequences, processors,
                                                           scratch);
                        },
                        {}});
    measure(variants, 6, o);
    const double flops = 2.0 * b.sequences * b.length * static_cast<double>(b.length) * b.head * heads;
    const float us = variants[0].median();
    std::fprintf(out,
                 "{\"op\":\"attention\",\"sequences\":%d,\"length\":%d,\"heads\":%d,\"kv_heads\":%d,\"head\":%d,"
                 "\"variant\":\"eadem\",\"us\":%.1f,\"tflops\":%.1f}\n",
                 b.sequences, b.length, heads, kv_heads, b.head, us, flops / us * 1e-6);
    std::printf("attention %d x %5d, head %3d: %8.1f us %6.1f TFLOP/s (fastest %.1f)\n", b.sequences, b.length, b.head,
                us, flops / us * 1e-6, flops / variants[0].times[0] * 1e-6);
    std::fflush(stdout);
    for (void* p : {static_cast<void*>(q), static_cast<void*>(result), static_cast<void*>(kv),
                    static_cast<void*>(table), static_cast<void*>(bad), scratch}) {
      ok(cudaFree(p));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--all")
      o.all = true;
    else if (a == "--reps" && i + 1 < argc)
      o.reps = std::atoi(argv[++i]);
    else if (a == "--rest" && i + 1 < argc)
      o.rest = std::atoi(argv[++i]);
    else if (a == "--rows" && i + 1 < argc)
      o.rows = std::atoi(argv[++i]);
    else if (a == "--layers" && i + 1 < argc)
      o.layers = argv[++i];
    else if (o.what.empty())
      o.what = a;
    else
      o.out = a;
  }
  FILE* out = o.out.empty() ? nullptr : std::fopen(o.out.c_str(), "w");
  if (out == nullptr || (o.what != "linear" && o.what != "attention")) {
    std::fprintf(
        stderr,
        "usage: %s linear|attention OUT.json [--reps N] [--rest MICROSECONDS] [--all] [--rows M] [--layers A,B]\n",
        argv[0]);
    return 2;
  }
  int processors = 0;
  ok(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  if (o.what == "linear") {
    bench_linear(o, out, processors);
  } else {
    bench_attention(o, out, processors);
  }
  std::fclose(out);
  return 0;
}
