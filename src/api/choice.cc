#include "api/choice.h"

#include <algorithm>
#include <charconv>

#include "kernels/free/free_sets.h"
#include "model/model.h"

namespace eadem::api {
namespace {

// The free-order mode of a choice. A device was opened for it; its matrix instructions are those of mma16.
Result<Choice> free_order(Choice choice) {
  if (choice.device != nullptr) return choice;
  if (choice.numerics == numerics::Numerics::kMma16) {
    return Error{"mode free has no mma16 on a CPU, where it is an exact emulation: use --numerics fma32 or int8"};
  }
  const kernels::KernelSet* twin = kernels::free_order_twin(*choice.kernels);
  if (twin == nullptr) {
    return Error{"mode free has no twin of the kernel set '" + std::string(choice.kernels->name) + "': use --isa auto"};
  }
  choice.kernels = twin;
  return choice;
}

// "cpu" (null), "cuda" or "cuda:N".
Result<std::shared_ptr<kernels::Device>> open_device(const std::string& name, kernels::SumOrder order) {
  if (name == "cpu") return std::shared_ptr<kernels::Device>();
  const std::string prefix = "cuda:";
  int ordinal = 0;
  const bool numbered = name.starts_with(prefix);
  if (numbered) {
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + prefix.size(), end, ordinal);
    if (parsed.ec != std::errc() || parsed.ptr != end || ordinal < 0) ordinal = -1;
  }
  if ((name != "cuda" && !numbered) || ordinal < 0) {
    return Error{"device '" + name + "' is unknown: use cpu, cuda, or cuda:N for another than the first"};
  }
  EADEM_ASSIGN_OR_RETURN(auto device, kernels::open_cuda_device(ordinal, order));
  return std::shared_ptr<kernels::Device>(std::move(device));
}

// The device too is opened for the mode; else the mode does not matter yet.
Result<Choice> choose_numerics_and_kernels(const EngineOptions& options, const weights::Checkpoint& checkpoint) {
  Choice choice{model::default_numerics(checkpoint), &kernels::best_kernel_set()};
  const auto order = options.mode == "free" ? kernels::SumOrder::kFree : kernels::SumOrder::kContract;
  EADEM_ASSIGN_OR_RETURN(choice.device, open_device(options.device, order));
  if (choice.device != nullptr) choice.numerics = numerics::Numerics::kMma16;  // its own matrix instructions'
  if (options.numerics != "auto") {
    if (options.numerics.ends_with("-free")) {
      return Error{"numerics '" + options.numerics + "' is that of --mode free, whose bits nobody promises: ask for " +
                   "the numerics without '-free'"};
    }
    const auto* found = std::find_if(std::begin(numerics::kAllNumerics), std::end(numerics::kAllNumerics), [&](auto n) {
      return options.numerics == numerics::short_name(n) || options.numerics == numerics::full_name(n);
    });
    if (found == std::end(numerics::kAllNumerics)) {
      return Error{"numerics '" + options.numerics + "' is unknown: use auto, mma16, fma32 or int8"};
    }
    choice.numerics = *found;
  }
  if (options.isa == "auto") {
    if (choice.kernels->supported()) return choice;
    return Error{"this processor has no kernel set of this build: x86-64 needs FMA (2013 and later), Arm 64 bits"};
  }
  choice.kernels = kernels::find_kernel_set(options.isa);
  std::string known;
  for (const auto* set : kernels::all_kernel_sets()) known += (known.empty() ? "" : ", ") + std::string(set->name);
  if (choice.kernels == nullptr)
    return Error{"kernel set '" + options.isa + "' is not in this build: use auto or one of " + known};
  if (!choice.kernels->supported()) {
    return Error{"kernel set '" + options.isa + "' needs instructions that this processor lacks: use --isa auto"};
  }
  return choice;
}

}  // namespace

Result<Choice> choose(const EngineOptions& options, const weights::Checkpoint& checkpoint) {
  EADEM_ASSIGN_OR_RETURN(const Choice choice, choose_numerics_and_kernels(options, checkpoint));
  if (options.mode == "contract") return choice;
  if (options.mode == "free") return free_order(choice);
  return Error{"mode '" + options.mode + "' is unknown: use contract or free"};
}

}  // namespace eadem::api
