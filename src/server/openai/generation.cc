#include "server/openai/generation.h"

#include <cmath>
#include <optional>
#include <utility>

#include "server/openai/json_text.h"

namespace eadem::server {
namespace {

std::optional<ReasoningParser> reasoning_parser(const Context& context, const Ask& ask, bool thinking) {
  if (!ask.chat || !context.reasons) return std::nullopt;
  return ReasoningParser(thinking);
}

// The salt makes the ids of calls a function of the answer.
std::optional<ToolParser> tool_parser(const Context& context, const Ask& ask, const std::string& hash, int answer) {
  if (!ask.tools.enabled()) return std::nullopt;
  const std::string salt = hash + "/" + std::to_string(*ask.sampling.seed) + "/" + std::to_string(answer);
  return ToolParser(*context.tool_format, ask.tools, salt);
}

}  // namespace

Generation::Choice::Choice(const Generation& generation, int number)
    : index(number),
      prompt(number / generation.ask_.sampling.n),
      text(reasoning_parser(*generation.context_, generation.ask_, generation.thinking_),
           tool_parser(*generation.context_, generation.ask_, generation.hashes_.front(), number)),
      completion_logprobs(generation.style(generation.ask_.logprobs), 0),
      chat_logprobs(generation.style(generation.ask_.logprobs)) {}

Generation::Generation(std::shared_ptr<Context> context, Prepared prepared, std::shared_ptr<Reply> reply,
                       const std::string& request_id, Clock::time_point arrival)
    : Job(std::move(context), std::move(reply), std::move(prepared.requests), arrival),
      ask_(std::move(prepared.ask)),
      echoes_(std::move(prepared.echoes)),
      hashes_(std::move(prepared.hashes)),
      thinking_(prepared.thinking),
      eadem_(std::move(prepared.eadem)),
      answers_(requests_.size()) {
  const char* const object = !ask_.chat ? "text_completion" : ask_.stream ? "chat.completion.chunk" : "chat.completion";
  head_ = "{\"id\":" + json_quote((ask_.chat ? "chatcmpl-" : "cmpl-") + request_id) + ",\"object\":\"" + object +
          "\",\"created\":" + std::to_string(unix_time()) + ",\"model\":" + json_quote(context_->model) +
          ",\"system_fingerprint\":" + json_quote(context_->engine.identity());
  if (ask_.receipt) {  // a receipt names the reply that it came with
    for (Request& request : requests_) request.id = (ask_.chat ? "chatcmpl-" : "cmpl-") + request_id;
  }
  const int answers = static_cast<int>(requests_.size()) * ask_.sampling.n;
  choices_.reserve(static_cast<size_t>(answers));
  for (int i = 0; i < answers; ++i) choices_.emplace_back(*this, i);
}

TokenStyle Generation::style(int top) const {
  return {&context_->engine, top, ask_.tokens_as_ids, ask_.sampling.skip_special_tokens};
}

void Generation::accepted() {
  if (!ask_.stream) return;
  reply_->begin_stream(200, "text/event-stream; charset=utf-8",
                       {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}});
}

// Called on the service's thread: hands over, and nothing else.
Callbacks Generation::callbacks_for(int prompt) {
  Callbacks callbacks;
  const bool stream = ask_.stream;
  const auto self = std::static_pointer_cast<Generation>(shared_from_this());
  callbacks.on_token = [self, prompt, stream](int answer, const SampledToken& token, std::string_view text) {
    self->context_->worker.post(
        [self, prompt, answer, now = Clock::now(), token = stream ? token : SampledToken{token.token, NAN, {}},
         text = std::string(stream ? text : std::string_view())] { self->on_token(prompt, answer, token, text, now); });
    return true;
  };
  if (stream && ask_.sampling.prompt_logprobs >= 0) {
    callbacks.on_prompt = [self, prompt](int answer, const std::vector<SampledToken>& tokens) {
      self->context_->worker.post([self, prompt, answer, tokens] { self->on_prompt(prompt, answer, tokens); });
    };
  }
  return callbacks;
}

void Generation::on_prompt(int prompt, int answer, const std::vector<SampledToken>& tokens) {
  if (!over()) begin_choice(choice(prompt, answer), tokens);
}

void Generation::on_token(int prompt, int answer, const SampledToken& token, const std::string& text,
                          Clock::time_point now) {
  if (over()) return;
  Choice& to = choice(prompt, answer);
  if (to.tokens++ == 0) {
    context_->metrics.first_token(seconds_between(arrival_, now));
  } else {
    context_->metrics.inter_token(seconds_between(to.last, now));
  }
  to.last = now;
  ++completion_tokens_;
  if (ask_.stream) stream_token(to, token, text);
}

void Generation::answered(int prompt, std::vector<Completion>& answers) {
  if (ask_.stream) {
    for (const Completion& answer : answers) end_choice(choice(prompt, answer.index), answer);
  } else {
    answers_[static_cast<size_t>(prompt)] = std::move(answers);
  }
}

void Generation::finish() {
  if (ask_.stream) {
    end_stream();
  } else {
    reply_->send(200, kJson, whole_reply());
  }
}

void Generation::fail(const ApiError& error) {
  if (!ask_.stream) return send_error(*reply_, error);
  reply_->write("data: " + to_json(error) + "\n\n");
  reply_->end();
}

}  // namespace eadem::server
