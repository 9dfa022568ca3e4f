#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/batch.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/sampling_flags.h"
#include "cli/terminal.h"

namespace eadem::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  EngineFlags engine;
  SamplingFlags sampling;
  std::string system;
  bool json = false;
};

class Chat {
 public:
  Chat(const Options& options, Engine& engine, SamplingParams sampling)
      : options_(options), engine_(engine), sampling_(std::move(sampling)) {
    reset();
  }

  Result<int> run();

 private:
  void reset();
  Result<void> answer(const std::string& line);
  // Tokens that the conversation leaves room for.
  Result<Request> request() const;

  const Options& options_;
  Engine& engine_;
  SamplingParams sampling_;
  ordered_json messages_;
};

void Chat::reset() {
  messages_ = ordered_json::array();
  if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
}

Result<Request> Chat::request() const {
  Request request;
  EADEM_ASSIGN_OR_RETURN(const std::string text, engine_.render_chat(to_line(messages_)));
  EADEM_ASSIGN_OR_RETURN(request.prompt_token_ids, engine_.tokenize(text, false));
  request.sampling = sampling_;
  const int64_t room = engine_.info().max_model_len - static_cast<int64_t>(request.prompt_token_ids.size());
  if (room < 1) return Error{"the conversation no longer fits into the context: /reset starts a new one"};
  if (!options_.sampling.fields.contains("max_tokens"))
    request.sampling.max_tokens = static_cast<int>(std::min<int64_t>(room, 1024));
  return request;
}

Result<void> Chat::answer(const std::string& line) {
  messages_.push_back({{"role", "user"}, {"content", line}});
  auto asked = request();
  if (!asked.ok()) {
    messages_.erase(messages_.size() - 1);
    return Error{asked.error()};
  }
  Callbacks callbacks;
  callbacks.on_token = [&](int, const SampledToken&, std::string_view text) {
    if (!options_.json) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    }
    return !interrupted();
  };
  auto answers = engine_.generate(std::move(asked).value(), std::move(callbacks));
  const bool failed = !answers.ok() || answers.value().front().finish_reason == FinishReason::kError;
  if (failed) {
    messages_.erase(messages_.size() - 1);
    return Error{answers.ok() ? answers.value().front().error : answers.error().message};
  }
  const Completion& said = answers.value().front();
  messages_.push_back({{"role", "assistant"}, {"content", said.text}});
  if (options_.json) {
    std::puts(to_line({{"role", "assistant"},
                       {"content", said.text},
                       {"finish_reason", to_string(said.finish_reason)},
                       {"seed", said.seed},
                       {"tokens", said.tokens.size()}})
                  .c_str());
  } else {
    std::putchar('\n');
  }
  std::fflush(stdout);
  return {};
}

Result<int> Chat::run() {
  const bool terminal = stdin_is_terminal();
  if (terminal)
    print_note(engine_.info().path + ", " + engine_.info().numerics + ". /reset starts anew, /exit or Ctrl-D ends.");
  for (std::string line;;) {
    if (terminal) std::fputs("> ", stderr);
    if (!std::getline(std::cin, line)) break;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line == "/exit") break;
    if (line == "/reset") reset();
    if (line.empty() || line == "/reset") continue;
    const auto answered = answer(line);
    if (!answered.ok() && !terminal) return Error{answered.error()};
    if (!answered.ok()) print_error(answered.error().message);
    if (!interrupted()) continue;
    if (!terminal) return kInterrupted;
    forget_interrupt();
  }
  if (terminal) std::fputc('\n', stderr);
  return 0;
}

Result<int> run(const Options& options) {
  EADEM_ASSIGN_OR_RETURN(Engine engine, options.engine.open());
  if (!engine.info().has_chat_template)
    return Error{engine.info().path + " has no chat template: use `eadem generate --raw`"};
  EADEM_ASSIGN_OR_RETURN(SamplingParams sampling, options.sampling.over(engine));
  if (sampling.n != 1) return Error{"--n: a conversation has one answer at a time"};
  catch_interrupts();
  const auto status = Chat(options, engine, std::move(sampling)).run();
  return end_run(options.engine, engine, status);
}

}  // namespace

Run add_chat(Flags flags) {
  auto options = std::make_shared<Options>();
  flags.text("--system", "TEXT", "the system message", &options->system);
  flags.flag("--json", "each answer as a JSON object in a line", &options->json);
  options->engine.add(flags);
  options->sampling.add(flags);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
