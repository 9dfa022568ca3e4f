#include <charconv>
#include <iterator>
#include <optional>

#include "audit/accept/matrix.h"

namespace eadem::audit::accept {
namespace {

template <class T>
std::optional<T> number(const std::string& text) {
  T value{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

struct Option {
  const char* name;
  Result<void> (*set)(const std::string& text, EngineOptions& options);
};

template <auto kField>
Result<void> set_integer(const std::string& text, EngineOptions& options) {
  const auto value = number<std::remove_reference_t<decltype(options.*kField)>>(text);
  if (!value) return Error{"must be an integer, at least 0"};
  options.*kField = *value;
  return {};
}

template <auto kField>
Result<void> set_flag(const std::string& text, EngineOptions& options) {
  if (text != "true" && text != "false") return Error{"must be true or false"};
  options.*kField = text == "true";
  return {};
}

template <auto kField>
Result<void> set_text(const std::string& text, EngineOptions& options) {
  if (text.empty()) return Error{"must be some text"};
  options.*kField = text;
  return {};
}

// A pool that holds the longest request of the cell and one block more, so that requests push each other out: the
// runner knows how long they are, and puts the number in.
Result<void> set_kv_blocks(const std::string& text, EngineOptions& options) {
  if (text == kTightPool) return {};
  if (!set_integer<&EngineOptions::kv_blocks>(text, options).ok())
    return Error{"must be an integer, at least 0, or \"tight\""};
  return {};
}

Result<void> set_speculation(const std::string& text, EngineOptions& options) {
  if (text != "off" && text != "ngram" && text != "draft") return Error{"must be off, ngram or draft"};
  options.speculation = text;
  // A draft model of one's own is always at hand: the model itself, in its own default numerics.
  if (text == "draft" && options.draft_model.empty()) options.draft_model = options.model;
  if (text != "draft") options.draft_model.clear();
  return {};
}

// Kernel sets are this machine's: where the engine is on a device, they are compared with it.
Result<void> set_isa(const std::string& text, EngineOptions& options) {
  options.device = "cpu";
  return set_text<&EngineOptions::isa>(text, options);
}

constexpr Option kOptions[] = {
    {"isa", set_isa},
    {"device", set_text<&EngineOptions::device>},
    {"threads", set_integer<&EngineOptions::threads>},
    {"max_batch", set_integer<&EngineOptions::max_batch>},
    {"prefill_chunk", set_integer<&EngineOptions::prefill_chunk>},
    {"mixed_chunk", set_integer<&EngineOptions::mixed_chunk>},
    {"kv_blocks", set_kv_blocks},
    {"max_model_len", set_integer<&EngineOptions::max_model_len>},
    {"prefix_cache", set_flag<&EngineOptions::prefix_cache>},
    {"speculation", set_speculation},
    {"max_draft", set_integer<&EngineOptions::max_draft>},
    {"force_preempt", set_integer<&EngineOptions::force_preempt>},
    {"force_draft", set_flag<&EngineOptions::force_draft>},
    {"async_scheduling", set_flag<&EngineOptions::async_scheduling>},
};

const Option* find(std::string_view name) {
  for (const Option& option : kOptions) {
    if (name == option.name) return &option;
  }
  return nullptr;
}

}  // namespace

bool is_setting(std::string_view name) { return find(name) != nullptr; }

Result<void> apply(const Setting& setting, EngineOptions& options) {
  const Option* option = find(setting.name);
  if (option == nullptr) {
    std::string known;
    for (const Option& one : kOptions) known += (known.empty() ? "" : ", ") + std::string(one.name);
    return Error{"'" + setting.name + "' is no option that a cell can set: use one of " + known};
  }
  const auto status = option->set(setting.value, options);
  if (!status.ok()) return Error{setting.name + " is '" + setting.value + "'; it " + status.error().message};
  return {};
}

}  // namespace eadem::audit::accept
