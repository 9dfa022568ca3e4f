#include "server/openai/errors.h"

#include <algorithm>
#include <utility>

#include "server/openai/fields.h"
#include "server/openai/json_text.h"

namespace eadem::server {
namespace {

std::string_view type_of(int status) {
  switch (status) {
    case 404: return "not_found_error";
    case 413: return "invalid_request_error";
    case 429: return "rate_limit_error";
    case 503: return "service_unavailable_error";
    case 504: return "timeout_error";
    default: return status < 500 ? "invalid_request_error" : "server_error";
  }
}

void append_or_null(std::string& out, std::string_view text) {
  if (text.empty()) {
    out += "null";
  } else {
    append_string(out, text);
  }
}

}  // namespace

std::string field_in(std::string_view message, std::string_view prompt_field) {
  constexpr std::string_view kQuoted = "field '";
  const size_t at = message.find(kQuoted);
  if (at != std::string_view::npos) {
    const std::string_view rest = message.substr(at + kQuoted.size());
    return std::string(rest.substr(0, rest.find('\'')));
  }
  if (message.starts_with("the prompt")) return std::string(prompt_field);
  const std::string_view word = message.substr(0, message.find_first_of(" :,"));
  if (word == "prompt_token_ids") return std::string(prompt_field);
  const std::string_view root = word.substr(0, word.find_first_of(".["));
  const auto fields = all_fields();
  const bool known = std::any_of(fields.begin(), fields.end(), [&](const Field& f) { return f.name == root; });
  return known ? std::string(word) : std::string();
}

ApiError bad_request(std::string message, std::string_view prompt_field) {
  ApiError error{400, std::move(message), {}, {}};
  error.param = field_in(error.message, prompt_field);
  const bool too_long = error.message.starts_with("the prompt") && error.message.find("context") != std::string::npos;
  if (too_long) error.code = "context_length_exceeded";
  return error;
}

ApiError model_not_found(std::string_view model) {
  return {404, "the model " + json_quote(model.substr(0, 200)) + " is not served here; GET /v1/models lists what is",
          "model", "model_not_found"};
}

ApiError queue_full() { return {429, "the server's queue is full; try again in a second", {}, "queue_full"}; }

ApiError draining() { return {503, "the server is shutting down and takes no new requests", {}, "draining"}; }

ApiError deadline_passed() {
  return {504, "the request did not end within its time limit; what was drawn so far is not given", {}, "timeout"};
}

ApiError engine_failed(std::string message) { return {500, std::move(message), {}, {}}; }

std::string to_json(const ApiError& error) {
  std::string out = "{\"error\":{\"message\":";
  append_string(out, error.message);
  out += ",\"type\":";
  append_string(out, type_of(error.status));
  out += ",\"param\":";
  append_or_null(out, error.param);
  out += ",\"code\":";
  append_or_null(out, error.code);
  return out + "}}";
}

void send_error(Reply& reply, const ApiError& error) {
  Headers headers;
  if (error.status == 429) headers.emplace_back("Retry-After", "1");
  if (error.status == 503) headers.emplace_back("Retry-After", "10");
  reply.send(error.status, "application/json", to_json(error), std::move(headers));
}

}  // namespace eadem::server
