// Errors in OpenAI's shape: {"error": {"message", "type", "param", "code"}}, and where each status comes from.
#pragma once

#include <string>
#include <string_view>

#include "server/http/http.h"

namespace eadem::server {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param;  // the field at fault; empty: none
  std::string code;   // empty: none
};

// A fault of the request, 400. The field is found in the message, which names it ("field 'x' must ..." or "x is ...");
// prompt_field: what the endpoint calls its prompt ("prompt", "messages", "input").
ApiError bad_request(std::string message, std::string_view prompt_field = "prompt");
ApiError model_not_found(std::string_view model);
ApiError queue_full();
ApiError draining();
ApiError deadline_passed();
ApiError engine_failed(std::string message);

// Which field a message is about; empty: none is named.
std::string field_in(std::string_view message, std::string_view prompt_field);

std::string to_json(const ApiError& error);
// With Retry-After for 429 and 503.
void send_error(Reply& reply, const ApiError& error);

}  // namespace eadem::server
