// The reference set: scalar, literal, slow. Every other set gives its bits.
#include "kernels/reference/attention.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/rows.h"
#include "kernels/reference/sampling.h"
#include "kernels/sets.h"

namespace eadem::kernels {

constinit const KernelSet kReferenceSet = {
    .name = "reference",
    .supported = reference_supported,
    .calls = &calls,
    .linear_bytes = reference::linear_bytes,
    .pack_operands = reference::pack_operands,
    .pack_int8 = reference::pack_int8,
    .unpack_row = reference::unpack_row,
    .linear = reference::linear,
    .kv_bytes = reference::kv_bytes,
    .kv_write = reference::kv_write,
    .kv_read = reference::kv_read,
    .attention_split = reference::attention_split,
    .attention_merge = reference::attention_merge,
    .attention_finish = reference::attention_finish,
    .rms_norm = reference::rms_norm,
    .split_qkv = reference::split_qkv,
    .swiglu = reference::swiglu,
    .quantise = reference::quantise,
    .log_sum = reference::log_sum,
    .top_p_weights = reference::top_p_weights,
    .weight_above = reference::weight_above,
    .weights_between = reference::weights_between,
    .largest = reference::largest,
    .contenders = reference::contenders,
};

}  // namespace eadem::kernels
