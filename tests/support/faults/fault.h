// Seeded faults: bugs as real engines had them, put into the true engine by the linker, so that a test can see whether
// an acceptance matrix finds them. Nothing in src/ knows of this folder: a test program that links `eadem_faults` has
// calls of a few functions (seams.cc) go through here first; a program that does not, has nothing of it
// (docs/decisions/0005-faults-through-the-linker.md).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/scheduler.h"
#include "model/kv_pool.h"
#include "ops/rows.h"

namespace eadem::faults {

// The rows of the linear layer, norm or SwiGLU at hand.
struct Rows {
  const kernels::KernelSet* set = nullptr;
  int rows = 0;
  int width = 0, padded = 0;  // elements of a row; of a row of `out`
  uint16_t* out = nullptr;    // operands [rows][padded], as the true op left them
};

// What a faulty engine does otherwise. At each seam the true function runs too; a fault that overrides nothing changes
// nothing. Calls come from the thread that computes a step, `block_reused` from the one that schedules.
class Fault {
 public:
  Fault(std::string_view fault_name, std::string_view what_it_does) : name(fault_name), says(what_it_does) {}
  virtual ~Fault() = default;

  // Around StepRunner::launch and finish.
  virtual void before_step(engine::Step&) {}
  virtual void after_step(engine::Step&) {}
  // How many shards a linear layer sums in; `shape.shards` is the truth. threads: of the pool.
  virtual int shards(const kernels::LinearShape& shape, int /*rows*/, int /*threads*/) { return shape.shards; }
  // After ops::rms_norm and ops::swiglu. gate_up: [rows][2 * width] float32.
  virtual void after_norm(const Rows&) {}
  virtual void after_swiglu(const Rows&, const float* /*gate_up*/) {}
  // The position that turns row `row` of the step.
  virtual int64_t rope_position(int /*row*/, int64_t position) { return position; }
  // A block is given to an owner; `had_owner`: not its first one. True: it keeps what it holds.
  virtual bool keeps_leftovers(model::KvPool&, int32_t /*block*/, bool /*had_owner*/) { return false; }
  // Before and after keys and values of the rows are written.
  virtual void before_kv(const kernels::KernelSet&, const kernels::AttentionShape&, const ops::QkvCall&, int /*rows*/) {
  }
  virtual void after_kv(const kernels::KernelSet&, const kernels::AttentionShape&, const ops::QkvCall&, int /*rows*/) {}
  // The lineage under which the prefix cache looks up and stores a block.
  virtual uint64_t lineage(uint64_t parent) { return parent; }

  const std::string_view name, says;
};

// The ten, in the order of docs/acceptance.md.
std::span<Fault* const> all();
// By name, or null.
Fault* find(std::string_view name);

// The fault that this process has; null: none. Before any engine runs, or while none does.
void install(Fault* fault);
Fault* installed();

// Times that the installed fault changed something since it was installed.
uint64_t fired();
void fire();

}  // namespace eadem::faults
