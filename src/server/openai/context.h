// What all handlers share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/openai/errors.h"
#include "server/openai/fields.h"
#include "server/openai/routes.h"
#include "server/openai/tools.h"
#include "server/openai/worker.h"

namespace eadem::server {

struct Context {
  explicit Context(const OpenaiOptions& given);

  // From now on the service is not called any more: it may go, and what is under way ends as it ends it. Waits for the
  // worker.
  void close();

  // The default name, or one that is served.
  bool serves(std::string_view name) const;

  OpenaiOptions options;
  Service& service;
  const Engine& engine;
  Metrics& metrics;
  std::string model;                                  // what replies call it
  SamplingParams completion_defaults, chat_defaults;  // before the request's own fields
  std::optional<ToolFormat> tool_format;              // none: tools are refused
  bool reasons = false;                               // answers may begin with thoughts
  int64_t created = 0;                                // start of the server, seconds since 1970
  bool closed = false;                                // of the worker's thread
  Worker worker;
};

// Answers 400 (or what the error says) and counts it.
void refuse(const Context& context, Reply& reply, const ApiError& error);

// Seconds since 1970.
int64_t unix_time();

// BLAKE3 over the token ids, each as four little-endian bytes: 64 hexadecimal digits.
std::string hash_of_tokens(const std::vector<int32_t>& tokens);

inline constexpr std::string_view kJson = "application/json";
inline constexpr std::string_view kCycloneDx = "application/vnd.cyclonedx+json";

}  // namespace eadem::server
