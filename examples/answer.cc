// Asks a model a few questions at once and prints the answers as they end.
//
//   eadem pull smollm2-135m
//   build/examples/eadem_example smollm2-135m "Why is the sky blue?" "Name three fish."
//
// Each answer is a function of its own question, seed and model: ask more, fewer or in another order, and it stays the
// same, to the bit.
#include <cstdio>
#include <string>

#include "eadem/engine.h"

namespace {

// The question as a message to a model that knows chat, else as a text to go on with. The message's JSON is written by
// hand here; a real program would use a JSON library.
eadem::Result<eadem::Request> make_request(const eadem::Engine& engine, const std::string& question) {
  eadem::Request request;
  request.sampling.max_tokens = 64;
  request.sampling.temperature = 0.8f;
  request.sampling.top_p = 0.95f;
  request.sampling.seed = 7;
  std::string text = question;
  if (engine.info().has_chat_template) {
    std::string escaped;
    for (const char c : question) {
      if (c == '"' || c == '\\') escaped += '\\';
      escaped += c;
    }
    auto rendered = engine.render_chat(R"([{"role": "user", "content": ")" + escaped + "\"}]");
    if (!rendered.ok()) return rendered.error();
    text = rendered.value();
  }
  auto tokens = engine.tokenize(text, !engine.info().has_chat_template);
  if (!tokens.ok()) return tokens.error();
  request.prompt_token_ids = std::move(tokens).value();
  return request;
}

int fail(const eadem::Error& error) {
  std::fprintf(stderr, "eadem_example: %s\n", error.message.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return fail({"usage: eadem_example MODEL QUESTION..."});
  eadem::EngineOptions options;
  options.model = argv[1];
  auto engine = eadem::Engine::open(options);
  if (!engine.ok()) return fail(engine.error());
  std::printf("%s, %s\n", engine.value().info().path.c_str(), engine.value().info().numerics.c_str());

  for (int i = 2; i < argc; ++i) {
    auto request = make_request(engine.value(), argv[i]);
    if (!request.ok()) return fail(request.error());
    eadem::Callbacks callbacks;
    callbacks.on_done = [question = std::string(argv[i])](const std::vector<eadem::Completion>& answers) {
      for (const eadem::Completion& answer : answers) {
        const std::string& text = answer.error.empty() ? answer.text : answer.error;
        std::printf("\n%s\n%s\n", question.c_str(), text.c_str());
      }
    };
    const auto ticket = engine.value().submit(std::move(request).value(), std::move(callbacks));
    if (!ticket.ok()) return fail(ticket.error());
  }
  while (engine.value().step()) {
  }
  return 0;
}
