// POST /v1/embeddings.
#include <bit>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/openai/ask.h"
#include "server/openai/endpoints.h"
#include "server/openai/job.h"
#include "server/openai/json_text.h"
#include "server/openai/prepare.h"

namespace eadem::server {
namespace {

struct EmbeddingAsk {
  std::string model;
  std::vector<TextOrTokens> inputs;
  bool base64 = false;
  Pooling pooling = Pooling::kMean;
  int priority = 0;
  std::optional<std::chrono::milliseconds> timeout;
};

// One of two words; absent: false.
Result<bool> read_choice(const Body& body, const char* field, std::string_view off, std::string_view on) {
  std::string word(off);
  EADEM_RETURN_IF_ERROR(read_string(body.own, field, word));
  if (word == on || word == off) return word == on;
  return must_be(field, "\"" + std::string(off) + "\" or \"" + std::string(on) + "\"");
}

Result<EmbeddingAsk> parse(const Context& context, std::string_view text) {
  EADEM_ASSIGN_OR_RETURN(const Body body, split_body(text, kEmbeddings));
  EmbeddingAsk ask;
  EADEM_RETURN_IF_ERROR(read_string(body.own, "model", ask.model));
  const auto input = body.own.find("input");
  if (input == body.own.end()) return Error{"field 'input' is missing"};
  bool list = false;
  EADEM_ASSIGN_OR_RETURN(ask.inputs, parse_prompts(*input, "input", list));
  EADEM_ASSIGN_OR_RETURN(ask.base64, read_choice(body, "encoding_format", "float", "base64"));
  EADEM_ASSIGN_OR_RETURN(const bool last, read_choice(body, "pooling", "mean", "last"));
  if (last) ask.pooling = Pooling::kLast;
  const int64_t hidden = context.engine.info().hidden;
  int64_t dimensions = hidden;
  EADEM_RETURN_IF_ERROR(read_int(body.own, "dimensions", 1, INT32_MAX, dimensions));
  if (dimensions != hidden) return must_be("dimensions", std::to_string(hidden) + ", the model's own, or absent");
  EADEM_RETURN_IF_ERROR(parse_schedule(body.own, ask.priority, ask.timeout));
  return ask;
}

Result<std::vector<Request>> requests_of(const Context& context, EmbeddingAsk& ask,
                                         std::chrono::steady_clock::time_point arrival) {
  std::vector<Request> requests;
  for (TextOrTokens& input : ask.inputs) {
    Request request;
    if (const auto* text = std::get_if<std::string>(&input)) {
      EADEM_ASSIGN_OR_RETURN(request.prompt_token_ids, context.engine.tokenize(*text));
    } else {
      request.prompt_token_ids = std::move(std::get<std::vector<int32_t>>(input));
    }
    request.pooling = ask.pooling;
    request.priority = ask.priority;
    request.deadline = deadline_of(context, ask.timeout, arrival);
    EADEM_RETURN_IF_ERROR(context.service.check(request));
    requests.push_back(std::move(request));
  }
  return requests;
}

// RFC 4648, of the float32 values' little-endian bytes.
std::string base64(const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* const bytes = reinterpret_cast<const unsigned char*>(values.data());
  const size_t size = values.size() * sizeof(float);
  std::string out;
  out.reserve((size + 2) / 3 * 4);
  for (size_t i = 0; i < size; i += 3) {
    const size_t left = std::min<size_t>(size - i, 3);
    uint32_t group = uint32_t{bytes[i]} << 16;
    if (left > 1) group |= uint32_t{bytes[i + 1]} << 8;
    if (left > 2) group |= uint32_t{bytes[i + 2]};
    out += kDigits[group >> 18];
    out += kDigits[group >> 12 & 63];
    out += left > 1 ? kDigits[group >> 6 & 63] : '=';
    out += left > 2 ? kDigits[group & 63] : '=';
  }
  return out;
}

class Embedding final : public Job {
 public:
  Embedding(std::shared_ptr<Context> context, std::shared_ptr<Reply> reply, std::vector<Request> requests,
            Clock::time_point arrival, bool as_base64)
      : Job(std::move(context), std::move(reply), std::move(requests), arrival),
        base64_(as_base64),
        vectors_(requests_.size()) {}

 private:
  void answered(int request, std::vector<Completion>& answers) override {
    vectors_[static_cast<size_t>(request)] = std::move(answers.front().embedding);
  }

  void finish() override {
    std::string out = "{\"object\":\"list\",\"data\":[";
    for (size_t i = 0; i < vectors_.size(); ++i) {
      out += (i > 0 ? ",{" : "{") + std::string("\"object\":\"embedding\",\"index\":") + std::to_string(i) +
             ",\"embedding\":";
      append_vector(out, vectors_[i]);
      out += '}';
    }
    out += "],\"model\":" + json_quote(context_->model) +
           ",\"usage\":{\"prompt_tokens\":" + std::to_string(prompt_tokens_) +
           ",\"total_tokens\":" + std::to_string(prompt_tokens_) + "}," + eadem() + "}";
    reply_->send(200, kJson, std::move(out));
  }

  void append_vector(std::string& out, const std::vector<float>& values) const {
    if (base64_) {
      append_string(out, base64(values));
      return;
    }
    out += '[';
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out += ',';
      append_float(out, values[i]);
    }
    out += ']';
  }

  std::string eadem() const {
    std::string out = "\"eadem\":{\"fingerprint\":" + json_quote(context_->engine.identity()) +
                      ",\"numerics\":" + json_quote(context_->engine.info().numerics) + ",\"pooling\":\"" +
                      (requests_.front().pooling == Pooling::kLast ? "last" : "mean") + "\",\"prompt_hashes\":[";
    for (size_t i = 0; i < requests_.size(); ++i) {
      out += (i > 0 ? "," : "") + json_quote(hash_of_tokens(requests_[i].prompt_token_ids));
    }
    return out + "]}";
  }

  bool base64_;
  std::vector<std::vector<float>> vectors_;
};

}  // namespace

void embed(const SharedContext& context, const HttpRequest& request, const SharedReply& reply) {
  const auto arrival = Job::Clock::now();
  auto ask = parse(*context, request.body);
  if (!ask.ok()) return refuse(*context, *reply, bad_request(ask.error().message, "input"));
  if (!context->serves(ask.value().model)) return refuse(*context, *reply, model_not_found(ask.value().model));
  auto requests = requests_of(*context, ask.value(), arrival);
  if (!requests.ok()) return refuse(*context, *reply, bad_request(requests.error().message, "input"));
  std::make_shared<Embedding>(context, reply, std::move(requests).value(), arrival, ask.value().base64)->start();
}

}  // namespace eadem::server
