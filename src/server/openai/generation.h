// A request for text under way: follows the answers and writes the reply, streamed or whole.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/openai/answer_text.h"
#include "server/openai/job.h"
#include "server/openai/logprobs.h"
#include "server/openai/prepare.h"

namespace eadem::server {

class Generation final : public Job {
 public:
  Generation(std::shared_ptr<Context> context, Prepared prepared, std::shared_ptr<Reply> reply,
             const std::string& request_id, Clock::time_point arrival);

 private:
  // One answer: answer `index % n` of prompt `index / n`.
  struct Choice {
    Choice(const Generation& generation, int number);

    int index = 0, prompt = 0;
    AnswerText text;
    CompletionLogprobs completion_logprobs;
    ChatLogprobs chat_logprobs;
    bool begun = false;  // its first chunk was written
    int64_t tokens = 0;
    Clock::time_point last{};
  };

  void accepted() override;
  void answered(int prompt, std::vector<Completion>& answers) override;
  void finish() override;
  void fail(const ApiError& error) override;
  Callbacks callbacks_for(int prompt) override;
  void on_prompt(int prompt, int answer, const std::vector<SampledToken>& tokens);
  void on_token(int prompt, int answer, const SampledToken& token, const std::string& text, Clock::time_point now);
  Choice& choice(int prompt, int answer) {
    return choices_[static_cast<size_t>(prompt) * static_cast<size_t>(ask_.sampling.n) + static_cast<size_t>(answer)];
  }

  // Streams (stream.cc). The first chunk of a choice: its role, or its prompt where echo asks.
  void begin_choice(Choice& choice, const std::vector<SampledToken>& prompt);
  void stream_token(Choice& choice, const SampledToken& token, const std::string& text);
  void end_choice(Choice& choice, const Completion& answer);
  void end_stream();
  // members: of the choice, behind its index. finish_reason: empty while it goes on.
  // receipts: of the choice, where they come with this chunk.
  void write_chunk(const Choice& choice, const std::string& members, std::string_view finish_reason,
                   const std::string& receipts = {});

  // Whole replies (whole.cc).
  std::string whole_reply();
  std::string whole_choice(Choice& choice, const Completion& answer);

  // What both say.
  std::string receipt_of(const Choice& choice, const Completion& answer) const;  // an envelope, or null
  std::string eadem_with(const std::string& receipts) const;  // receipts: empty where none were asked
  std::string whole_logprobs(Choice& choice, const Completion& answer);
  std::string prompt_members(const Choice& choice, const std::vector<SampledToken>& prompt) const;
  std::string usage_json(bool final) const;
  static std::string_view finish_reason_of(const Choice& choice, const Completion& answer);
  TokenStyle style(int top) const;

  Ask ask_;
  std::vector<std::string> echoes_, hashes_;  // by prompt
  bool thinking_;
  std::string eadem_;
  std::string head_;  // the members that open every object of this reply
  std::vector<Choice> choices_;
  std::vector<std::vector<Completion>> answers_;  // by prompt; of whole replies
  bool first_chunk_ = true;
};

}  // namespace eadem::server
