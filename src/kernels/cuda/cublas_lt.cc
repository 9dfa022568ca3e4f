#include "kernels/cuda/cublas_lt.h"

#include <dlfcn.h>
#include <library_types.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include "core/check.h"

namespace eadem::kernels::cuda {
namespace {

constexpr const char* kName = "libcublasLt.so.13";
constexpr size_t kWorkspace = size_t{32} << 20;  // what NVIDIA recommends for Hopper
constexpr int kCandidates = 4;
constexpr int64_t kMostAlignment = 256;

// Numbers of cublasLt.h and cublas_api.h.
constexpr int kCompute32F = 68;
constexpr int kTransposed = 1, kPlain = 0;
enum DescriptionAttribute { kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8 };
constexpr uint32_t kBiasEpilogue = 4;
enum PreferenceAttribute { kMaxWorkspace = 1, kAlignmentA = 5, kAlignmentB = 6, kAlignmentC = 7, kAlignmentD = 8 };

struct Algo {
  uint64_t data[8];
};
struct HeuristicResult {
  Algo algo;
  size_t workspace;
  int state;  // 0: the rest means something
  float waves;
  int reserved[4];
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "eadem: cuBLASLt failed: %s\n", what.c_str());
  std::abort();
}
void check(int status, const char* what) {
  if (status != 0) fail(std::string(what) + " gives status " + std::to_string(status));
}

int64_t alignment_of(const void* pointer) {
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer));
  return address == 0 ? kMostAlignment : std::min(kMostAlignment, address & -address);
}

std::vector<std::string> places() {
  std::vector<std::string> all = {kName};
  if (const char* home = std::getenv("CUDA_HOME"); home != nullptr && *home != '\0') {
    for (const char* folder : {"/lib64/", "/lib/"}) all.push_back(std::string(home) + folder + kName);
  }
  all.push_back(std::string("/usr/local/cuda/lib64/") + kName);
  return all;
}

}  // namespace

struct CublasLt::Functions {
  using Layout = void*;
  size_t (*version)() = nullptr;
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*create_description)(void** description, int compute_type, int scale_type) = nullptr;
  int (*set_description)(void* description, int attribute, const void* value, size_t bytes) = nullptr;
  int (*destroy_description)(void* description) = nullptr;
  int (*create_layout)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t stride) = nullptr;
  int (*destroy_layout)(void* layout) = nullptr;
  int (*create_preference)(void** preference) = nullptr;
  int (*set_preference)(void* preference, int attribute, const void* value, size_t bytes) = nullptr;
  int (*destroy_preference)(void* preference) = nullptr;
  int (*heuristic)(void* handle, void* description, Layout a, Layout b, Layout c, Layout d, void* preference,
                   int wanted, HeuristicResult* results, int* count) = nullptr;
  int (*matmul)(void* handle, void* description, const void* alpha, const void* a, Layout a_layout, const void* b,
                Layout b_layout, const void* beta, const void* c, Layout c_layout, void* d, Layout d_layout,
                const Algo* algo, void* workspace, size_t workspace_bytes, cudaStream_t stream) = nullptr;
};

// y is D, and C where it is added to; all matrices are seen by columns, so that y^T = w x^T.
struct CublasLt::Algorithm {
  void* description = nullptr;
  void *w = nullptr, *x = nullptr, *y = nullptr;  // layouts
  HeuristicResult chosen{};
};

Result<std::unique_ptr<CublasLt>> CublasLt::open() {
  std::unique_ptr<CublasLt> library(new CublasLt);
  EADEM_RETURN_IF_ERROR(library->load());
  EADEM_RETURN_IF_ERROR(library->start());
  return library;
}

Result<void> CublasLt::load() {
  const char* named = std::getenv("EADEM_CUBLASLT");
  const bool is_named = named != nullptr && *named != '\0';
  void* library = nullptr;  // never closed: its kernels are known to the driver
  std::string tried, reason;
  for (const std::string& place : is_named ? std::vector<std::string>{named} : places()) {
    library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    if (reason.empty()) reason = dlerror();
    tried += (tried.empty() ? "" : ", ") + place;
  }
  if (library == nullptr) {
    return Error{std::string("cuBLASLt cannot be opened (") + (is_named ? "EADEM_CUBLASLT is " : "tried ") + tried +
                 "; " + reason +
                 "): install cuBLAS of CUDA 13 (a toolkit has it, and the Python wheel nvidia-cublas), " +
                 "and where the system does not find it let EADEM_CUBLASLT name the file libcublasLt.so.13"};
  }
  functions_ = std::make_unique<Functions>();
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    void* const symbol = dlsym(library, name);
    if (symbol == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  Functions& f = *functions_;
  find(f.version, "cublasLtGetVersion");
  find(f.create, "cublasLtCreate");
  find(f.destroy, "cublasLtDestroy");
  find(f.create_description, "cublasLtMatmulDescCreate");
  find(f.set_description, "cublasLtMatmulDescSetAttribute");
  find(f.destroy_description, "cublasLtMatmulDescDestroy");
  find(f.create_layout, "cublasLtMatrixLayoutCreate");
  find(f.destroy_layout, "cublasLtMatrixLayoutDestroy");
  find(f.create_preference, "cublasLtMatmulPreferenceCreate");
  find(f.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  find(f.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  find(f.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(f.matmul, "cublasLtMatmul");
  if (!missing.empty()) return Error{"the cuBLASLt that was found is another version: it lacks " + missing};
  return {};
}

Result<void> CublasLt::start() {
  const size_t number = functions_->version();
  version_ =
      std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
  if (const int status = functions_->create(&handle_); status != 0) {
    handle_ = nullptr;
    return Error{"cuBLASLt " + version_ + " cannot be used with this device and driver (status " +
                 std::to_string(status) + ")"};
  }
  if (cudaMalloc(&workspace_, kWorkspace) != cudaSuccess) {
    cudaGetLastError();
    workspace_ = nullptr;
    return Error{"there is no device memory for cuBLASLt's working memory of 32 MiB"};
  }
  return {};
}

CublasLt::~CublasLt() {
  for (auto& [key, algorithm] : algorithms_) {
    functions_->destroy_description(algorithm.description);
    for (void* layout : {algorithm.w, algorithm.x, algorithm.y}) functions_->destroy_layout(layout);
  }
  if (handle_ != nullptr) functions_->destroy(handle_);
  if (workspace_ != nullptr) cudaFree(workspace_);
}

void CublasLt::choose(const Matmul& call, const Key& key, Algorithm& a) {
  const Functions& f = *functions_;
  check(f.create_description(&a.description, kCompute32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const auto describe = [&](int attribute, const auto& value) {
    check(f.set_description(a.description, attribute, static_cast<const void*>(&value), sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
  };
  describe(kTransposeA, int32_t{kTransposed});
  describe(kTransposeB, int32_t{kPlain});
  if (call.bias != nullptr) {
    describe(kEpilogue, kBiasEpilogue);
    describe(kBiasPointer, call.bias);
  }
  const auto rows = static_cast<uint64_t>(call.rows), n = static_cast<uint64_t>(call.n),
             k = static_cast<uint64_t>(call.k);
  const int type = call.float32 ? CUDA_R_32F : CUDA_R_16BF;
  check(f.create_layout(&a.w, CUDA_R_16BF, k, n, call.k), "cublasLtMatrixLayoutCreate");
  check(f.create_layout(&a.x, CUDA_R_16BF, k, rows, call.k), "cublasLtMatrixLayoutCreate");
  check(f.create_layout(&a.y, type, n, rows, call.y_stride), "cublasLtMatrixLayoutCreate");
  void* preference = nullptr;
  check(f.create_preference(&preference), "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](int attribute, const auto& value) {
    check(f.set_preference(preference, attribute, &value, sizeof(value)), "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(kMaxWorkspace, uint64_t{kWorkspace});
  prefer(kAlignmentA, static_cast<uint32_t>(alignment_of(call.w)));
  prefer(kAlignmentB, static_cast<uint32_t>(alignment_of(call.x)));
  for (const int attribute : {kAlignmentC, kAlignmentD}) {
    prefer(attribute, static_cast<uint32_t>(alignment_of(call.y)));
  }
  HeuristicResult results[kCandidates] = {};
  int count = 0;
  const int status = f.heuristic(handle_, a.description, a.w, a.x, a.y, a.y, preference, kCandidates, results, &count);
  check(f.destroy_preference(preference), "cublasLtMatmulPreferenceDestroy");
  for (int i = 0; i < kCandidates && i < count && status == 0; ++i) {
    if (results[i].state != 0) continue;
    a.chosen = results[i];
    return;
  }
  std::string parts;
  for (const int64_t part : key) parts += " " + std::to_string(part);
  fail("no algorithm (status " + std::to_string(status) +
       ") for rows, n, k, stride of y, float32, sum, bias and alignments of x, w, y, bias:" + parts);
}

CublasLt::Algorithm& CublasLt::algorithm_of(const Matmul& call) {
  const Key key = {call.rows,
                   call.n,
                   call.k,
                   call.y_stride,
                   call.float32,
                   call.add_to_y,
                   call.bias != nullptr,
                   alignment_of(call.x),
                   alignment_of(call.w),
                   alignment_of(call.y),
                   alignment_of(call.bias)};
  const auto [found, is_new] = algorithms_.try_emplace(key);
  if (is_new) choose(call, key, found->second);
  return found->second;
}

void CublasLt::run(cudaStream_t stream, const Matmul& call) {
  EADEM_CHECK(call.rows >= 1 && call.y_stride >= call.n && (call.bias == nullptr || call.float32));
  const std::lock_guard lock(mutex_);
  Algorithm& a = algorithm_of(call);
  if (call.bias != nullptr) {  // another layer of the same shape has its own
    check(functions_->set_description(a.description, kBiasPointer, static_cast<const void*>(&call.bias),
                                      sizeof(call.bias)),
          "cublasLtMatmulDescSetAttribute");
  }
  const float alpha = 1.0f, beta = call.add_to_y ? 1.0f : 0.0f;
  check(functions_->matmul(handle_, a.description, &alpha, call.w, a.w, call.x, a.x, &beta, call.y, a.y, call.y, a.y,
                           &a.chosen.algo, workspace_, kWorkspace, stream),
        "cublasLtMatmul");
}

}  // namespace eadem::kernels::cuda
