// From what a body asks to what the engine is asked: prompts rendered and tokenised, defaults made definite, so that
// the reply can tell all that it is a function of.
#pragma once

#include <string>
#include <vector>

#include "server/openai/ask.h"
#include "server/openai/context.h"

namespace eadem::server {

struct Prepared {
  Ask ask;
  std::vector<Request> requests;    // one for each prompt; every one with a seed
  std::vector<std::string> echoes;  // the prompts as text, where echo asks
  std::vector<std::string> hashes;  // of the prompts' token ids
  bool thinking = false;            // the prompt ends inside the thoughts
  std::string eadem;                // the object of that name, as JSON
};

// Errors name the field. The requests have passed Service::check.
Result<Prepared> prepare(const Context& context, Ask ask, std::chrono::steady_clock::time_point arrival);

// The conversation as the model's template writes it. Errors: no template, one that fails, a last message that cannot
// be continued.
Result<std::string> render(const Engine& engine, const ChatPrompt& chat, const std::string& tools);

// When a request that came at `arrival` must have ended: by its own timeout or the server's, the earlier one.
std::optional<std::chrono::steady_clock::time_point> deadline_of(const Context& context,
                                                                 std::optional<std::chrono::milliseconds> timeout,
                                                                 std::chrono::steady_clock::time_point arrival);

}  // namespace eadem::server
