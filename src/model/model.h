// A loaded model: packed weights and the forward pass. A pure function of (weights, numerics, rows and what their
// blocks hold).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/thread_pool.h"
#include "kernels/device.h"
#include "kernels/kernel_set.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/kv_pool.h"
#include "model/trace.h"
#include "weights/checkpoint.h"

namespace eadem::model {

struct ModelOptions {
  numerics::Numerics numerics = numerics::Numerics::kFma32;
  const kernels::KernelSet* kernels = nullptr;  // null: the best this machine has
  std::shared_ptr<kernels::Device> device;      // where the ops run; null: on this machine, by `kernels`
  int threads = 1;
  bool graphs = true;  // on a device, steps in which every row is drawn from are recorded and replayed
  int max_rows = 512;  // rows of the largest batch; workspaces are allocated for them once

  // What packs weights and lays out KV blocks.
  const kernels::KernelSet& layout() const {
    if (device != nullptr) return device->packing();
    return kernels != nullptr ? *kernels : kernels::best_kernel_set();
  }
};

class Model {
 public:
  // Reads, checks and repacks the weights of a checkpoint, which must outlive the model (an embedding table that its
  // head does not hold stays where it lies). Errors name the file, the tensor or field, and the remedy.
  static Result<std::unique_ptr<Model>> load(const weights::Checkpoint& checkpoint, const ModelOptions& options);
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const ModelOptions& options() const = 0;
  virtual const kernels::AttentionShape& attention_shape() const = 0;
  virtual ThreadPool& pool() = 0;
  // Bytes of packed weights.
  virtual size_t weight_bytes() const = 0;

  // Runs the rows: writes their keys and values into the pool, keeps the final hidden operands of batch.outputs. A
  // model that draws returns before that is done, and may be given another batch meanwhile: two at most are under way.
  virtual void forward(const Batch& batch, KvPool& kv, TraceSink* trace = nullptr) = 0;
  // After each forward, in their order, on any thread: waits until it is done. bad() and drawn() are of it until the
  // next call.
  virtual void finish() {}
  // bad()[row] is true where a NaN or a score past its limit makes the row's request fail.
  virtual std::span<const bool> bad() const = 0;
  // Operands [hidden] of a row of the last forward, which is finished: its hidden state after the final norm, which the
  // head reads.
  virtual const uint16_t* hidden(int row) const = 0;
  // Logits of outputs begin ... end - 1 of the last forward: float32 [end - begin][vocab].
  virtual void logits(int begin, int end, float* out) = 0;

  // Whether forward() obeys Batch::draws, which spares this machine the logits: a model on a device does.
  virtual bool draws() const { return false; }
  // What they drew, one for each output.
  virtual std::span<const kernels::DeviceDrawn> drawn() const { return {}; }
};

// KV blocks that fit in `bytes`, and the auto choice of numerics for a checkpoint on a CPU: int8 where its linear
// weights are Q8_0, Q4_0 or Q4_1, else fma32.
numerics::Numerics default_numerics(const weights::Checkpoint& checkpoint);

}  // namespace eadem::model
