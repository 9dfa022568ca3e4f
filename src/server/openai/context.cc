#include "server/openai/context.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <future>

#include "contract/receipt.h"
#include "server/openai/reasoning.h"

namespace eadem::server {

Context::Context(const OpenaiOptions& given)
    : options(given),
      service(*given.service),
      engine(given.service->engine()),
      metrics(*given.metrics),
      model(given.model_names.front()),
      created(unix_time()) {
  if (options.generation_config) completion_defaults = engine.default_sampling();
  chat_defaults = completion_defaults;
  chat_defaults.max_tokens = INT_MAX;  // cut to what fits behind the prompt
  const std::string& chat_template = engine.text().chat_template;
  tool_format = options.tool_parser.empty() ? detect_tool_format(chat_template) : find_tool_format(options.tool_parser);
  reasons = options.reasoning_parser.empty() ? template_reasons(chat_template) : options.reasoning_parser != "none";
}

void Context::close() {
  std::promise<void> done;
  worker.post([&] {
    closed = true;
    done.set_value();
  });
  done.get_future().wait();
}

bool Context::serves(std::string_view name) const {
  const auto& names = options.model_names;
  return name.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

void refuse(const Context& context, Reply& reply, const ApiError& error) {
  context.metrics.refused(error.status == 429   ? Refusal::kQueueFull
                          : error.status == 503 ? Refusal::kDraining
                                                : Refusal::kInvalid);
  send_error(reply, error);
}

int64_t unix_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

std::string hash_of_tokens(const std::vector<int32_t>& tokens) { return contract::digest_of_tokens(tokens); }

}  // namespace eadem::server
