// The seams. The linker (CMakeLists.txt, --wrap) leads calls of each function below to its `faulty_` twin here, and
// knows the true one as `true_`. The twins have the types of the true functions: one whose symbol is no longer there,
// or whose parameters are no longer these, does not link.
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

#include "engine/prefix_cache.h"
#include "engine/step_runner.h"
#include "model/rope.h"
#include "ops/linear.h"
#include "support/faults/fault.h"

namespace eadem::faults {
namespace {

// A member function as one that takes its object first, which is how it is called.
template <class R, class... A>
auto as_function(R (*function)(A...)) {
  return function;
}
template <class C, class R, class... A>
R (*as_function(R (C::*)(A...)))(C*, A...);
template <class C, class R, class... A>
R (*as_function(R (C::*)(A...) const))(const C*, A...);

template <auto kFunction>
using TypeOf = std::remove_pointer_t<decltype(as_function(kFunction))>;

using LinearRun = void (ops::Linear::*)(ThreadPool&, const uint16_t*, int, float*, int64_t, bool) const;
using LinearFuses = bool (ops::Linear::*)(int, int) const;

// Rows of the step under way that were turned so far; -1 outside of a step (a draft model's forward).
thread_local int turned_rows = -1;

// Blocks of each pool that had an owner.
struct Owned {
  std::mutex mutex;
  std::map<const std::byte*, std::vector<bool>> blocks;  // by the pool's memory
};

Owned& owned() {
  static Owned all;
  return all;
}

// The parent under which each block was stored, as the caller named it.
struct Lineages {
  std::mutex mutex;
  std::map<std::pair<const engine::PrefixCache*, int32_t>, uint64_t> parents;
};

Lineages& lineages() {
  static Lineages all;
  return all;
}

// Where the pool's memory begins: it stays there when the pool is moved.
const std::byte* memory_of(const model::KvPool& pool) {
  const int32_t first = 0;
  return pool.view(0, &first).block(0, 0);
}

}  // namespace

#define EADEM_SEAM(name, symbol, function)            \
  TypeOf<function> true_##name asm("__real_" symbol); \
  TypeOf<function> faulty_##name asm("__wrap_" symbol)

EADEM_SEAM(launch, "_ZN5eadem6engine10StepRunner6launchERNS0_4StepERNS_5model6KvPoolEPNS4_9TraceSinkE",
           &engine::StepRunner::launch);
EADEM_SEAM(finish, "_ZN5eadem6engine10StepRunner6finishERNS0_4StepE", &engine::StepRunner::finish);
EADEM_SEAM(linear, "_ZNK5eadem3ops6Linear3runERNS_10ThreadPoolEPKtiPflb", static_cast<LinearRun>(&ops::Linear::run));
EADEM_SEAM(fuses_swiglu, "_ZNK5eadem3ops6Linear12fuses_swigluEii",
           static_cast<LinearFuses>(&ops::Linear::fuses_swiglu));
EADEM_SEAM(rms_norm, "_ZN5eadem3ops8rms_normERNS_10ThreadPoolERKNS_7kernels9KernelSetEPKfS8_iiifPtPb", &ops::rms_norm);
EADEM_SEAM(swiglu, "_ZN5eadem3ops6swigluERNS_10ThreadPoolERKNS_7kernels9KernelSetEPKfiiiPtPb", &ops::swiglu);
EADEM_SEAM(split_qkv,
           "_ZN5eadem3ops9split_qkvERNS_10ThreadPoolERKNS_7kernels9KernelSetERKNS3_8QkvShapeERKNS3_14AttentionShape"
           "ERKNS0_7QkvCallEi",
           &ops::split_qkv);
EADEM_SEAM(angles, "_ZN5eadem5model10AngleTable6anglesElPfS2_", &model::AngleTable::angles);
EADEM_SEAM(create_pool, "_ZN5eadem5model6KvPool6createERKNS_7kernels9KernelSetERKNS2_14AttentionShapeEiiPNS2_6DeviceE",
           &model::KvPool::create);
EADEM_SEAM(clear_block, "_ZN5eadem5model6KvPool5clearEi", &model::KvPool::clear);
EADEM_SEAM(find, "_ZNK5eadem6engine11PrefixCache4findEmPKi", &engine::PrefixCache::find);
EADEM_SEAM(insert, "_ZN5eadem6engine11PrefixCache6insertEimPKi", &engine::PrefixCache::insert);

void faulty_launch(engine::StepRunner* self, engine::Step& step, model::KvPool& pool, model::TraceSink* trace) {
  Fault* const fault = installed();
  if (fault == nullptr) return true_launch(self, step, pool, trace);
  turned_rows = 0;
  fault->before_step(step);
  true_launch(self, step, pool, trace);
  turned_rows = -1;
}

// On this machine a step is finished by the thread that launched it, before the next one.
void faulty_finish(engine::StepRunner* self, engine::Step& step) {
  true_finish(self, step);
  if (installed() != nullptr) installed()->after_step(step);
}

// Packed weights do not depend on the shards, so the true kernels sum in as many as the shape says.
void faulty_linear(const ops::Linear* self, ThreadPool& pool, const uint16_t* x, int rows, float* y, int64_t y_stride,
                   bool add_to_y) {
  const int truth = self->shape().shards;
  const int shards = installed() == nullptr ? truth : installed()->shards(self->shape(), rows, pool.threads());
  int& now = const_cast<kernels::LinearShape&>(self->shape()).shards;
  if (shards != truth) fire();
  now = shards;
  true_linear(self, pool, x, rows, y, y_stride, add_to_y);
  now = truth;
}

// Under a fault gates, ups and SwiGLU go through their own ops, where the seams above and below see all of them.
bool faulty_fuses_swiglu(const ops::Linear* self, int rows, int threads) {
  return installed() == nullptr && true_fuses_swiglu(self, rows, threads);
}

void faulty_rms_norm(ThreadPool& pool, const kernels::KernelSet& set, const float* x, const float* weight, int rows,
                     int n, int n_padded, float eps, uint16_t* y, bool* bad) {
  true_rms_norm(pool, set, x, weight, rows, n, n_padded, eps, y, bad);
  if (installed() != nullptr && turned_rows >= 0) installed()->after_norm({&set, rows, n, n_padded, y});
}

void faulty_swiglu(ThreadPool& pool, const kernels::KernelSet& set, const float* gate_up, int rows, int n, int n_padded,
                   uint16_t* y, bool* bad) {
  true_swiglu(pool, set, gate_up, rows, n, n_padded, y, bad);
  if (installed() != nullptr) installed()->after_swiglu({&set, rows, n, n_padded, y}, gate_up);
}

void faulty_split_qkv(ThreadPool& pool, const kernels::KernelSet& set, const kernels::QkvShape& shape,
                      const kernels::AttentionShape& attention, const ops::QkvCall& call, int rows) {
  Fault* const fault = installed();
  if (fault != nullptr) fault->before_kv(set, attention, call, rows);
  true_split_qkv(pool, set, shape, attention, call, rows);
  if (fault != nullptr) fault->after_kv(set, attention, call, rows);
}

// A forward asks once for each of its rows, in their order.
void faulty_angles(model::AngleTable* self, int64_t position, float* cosine, float* sine) {
  const bool asked = installed() != nullptr && turned_rows >= 0;
  const int64_t turned = asked ? installed()->rope_position(turned_rows++, position) : position;
  if (turned != position) fire();
  true_angles(self, turned, cosine, sine);
}

// No block of a new pool had an owner, even where a closed engine's pool lay at the same place.
Result<model::KvPool> faulty_create_pool(const kernels::KernelSet& set, const kernels::AttentionShape& shape,
                                         int layers, int blocks, kernels::Device* device) {
  auto pool = true_create_pool(set, shape, layers, blocks, device);
  if (pool.ok()) {
    const std::lock_guard lock(owned().mutex);
    owned().blocks[memory_of(pool.value())].assign(static_cast<size_t>(blocks), false);
  }
  return pool;
}

void faulty_clear_block(model::KvPool* self, int32_t block) {
  if (installed() == nullptr) return true_clear_block(self, block);
  bool had_owner = false;
  {
    const std::lock_guard lock(owned().mutex);
    std::vector<bool>& blocks = owned().blocks.at(memory_of(*self));
    had_owner = blocks[static_cast<size_t>(block)];
    blocks[static_cast<size_t>(block)] = true;
  }
  if (!installed()->keeps_leftovers(*self, block, had_owner)) true_clear_block(self, block);
}

int32_t faulty_find(const engine::PrefixCache* self, uint64_t parent, const int32_t* tokens) {
  if (installed() == nullptr) return true_find(self, parent, tokens);
  const int32_t block = true_find(self, installed()->lineage(parent), tokens);
  if (block >= 0) {
    const std::lock_guard lock(lineages().mutex);
    if (lineages().parents.at({self, block}) != parent) fire();
  }
  return block;
}

uint64_t faulty_insert(engine::PrefixCache* self, int32_t block, uint64_t parent, const int32_t* tokens) {
  if (installed() == nullptr) return true_insert(self, block, parent, tokens);
  {
    const std::lock_guard lock(lineages().mutex);
    lineages().parents[{self, block}] = parent;
  }
  return true_insert(self, block, installed()->lineage(parent), tokens);
}

}  // namespace eadem::faults
