// The reference set: scalar, literal, slow. Every other set gives its bits.
#include "kernels/reference/linear.h"
#include "kernels/sets.h"

namespace eadem::kernels {

constinit const KernelSet kReferenceSet = {
    .name = "reference",
    .supported = reference_supported,
    .calls = &calls,
    .linear_bytes = reference::linear_bytes,
    .pack_operands = reference::pack_operands,
    .pack_int8 = reference::pack_int8,
    .linear = reference::linear,
    .kv_bytes = nullptr,
    .kv_write = nullptr,
    .kv_read = nullptr,
    .attention_split = nullptr,
    .attention_merge = nullptr,
    .attention_finish = nullptr,
    .rms_norm = nullptr,
    .split_qkv = nullptr,
    .swiglu = nullptr,
    .quantise = nullptr,
    .log_sum = nullptr,
};

}  // namespace eadem::kernels
