// Requests and answers as JSON, under the names of OpenAI's completions API and vLLM's extras. One codec for JSONL
// files and, later, the server. Unknown fields are refused, never ignored.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "eadem/engine.h"

namespace eadem::api {

// What a line asks; its prompt is still text where it came as text.
struct ParsedRequest {
  std::string id;  // empty: none was given
  std::variant<std::string, std::vector<int32_t>> prompt;
  std::string messages, tools, template_kwargs;  // JSON texts; chat where messages is not empty
  SamplingParams sampling;
  std::string guide_field;  // that asked for sampling.guide: what an error names
};

// One line of JSONL as JSON. Fields keep their order: templates and schemas show it. Errors: no valid JSON, nested too
// deep, an object of more than 4096 fields, a field of the outermost object that stands there twice.
Result<nlohmann::ordered_json> parse_line(std::string_view text);

// One request object; absent fields take `defaults`. Errors name the field and what it must be.
Result<ParsedRequest> parse_request(const nlohmann::ordered_json& line, const SamplingParams& defaults);

// Sampling fields alone, over `defaults`.
Result<SamplingParams> parse_sampling(const nlohmann::ordered_json& fields, const SamplingParams& defaults);

// Tokenises the prompt, or renders and tokenises the messages. Errors: also a guide that cannot be used, by its field.
Result<Request> resolve(const Engine& engine, ParsedRequest parsed);

// One answer: index, prompt_token_ids, token_ids, text, logprobs, top_logprobs, finish_reason, seed, numerics,
// fingerprint, usage, and the effective sampling parameters. Numbers restore the exact float32; a masked token's
// logprob is null.
nlohmann::ordered_json to_json(const Engine& engine, const Request& request, const Completion& answer);

// The effective sampling parameters, under their API names; parse_request reads them back.
nlohmann::ordered_json to_json(const SamplingParams& sampling);

}  // namespace eadem::api
