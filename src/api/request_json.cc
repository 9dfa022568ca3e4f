#include "api/request_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "api/guide_json.h"
#include "core/fp_env.h"
#include "core/result.h"
#include "weights/message.h"

namespace eadem::api {
namespace {

using nlohmann::ordered_json;
using json = ordered_json;

Error wrong(std::string_view field, std::string_view wanted) {
  return {"field '" + std::string(field) + "' must be " + std::string(wanted)};
}

Result<int64_t> integer(const json& value, std::string_view field, int64_t least, int64_t most) {
  const std::string wanted = "an integer in " + std::to_string(least) + " ... " + std::to_string(most);
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
    return wrong(field, wanted);
  const auto number = value.get<int64_t>();
  if (number < least || number > most) return wrong(field, wanted);
  return number;
}

// Parsed as double, rounded once to float32; the engine checks ranges.
Result<float> number(const json& value, std::string_view field) {
  if (!value.is_number()) return wrong(field, "a number");
  const double parsed = value.get<double>();
  if (!(std::abs(parsed) <= std::numeric_limits<float>::max())) return wrong(field, "a finite number");
  return static_cast<float>(parsed);
}

Result<bool> flag(const json& value, std::string_view field) {
  if (!value.is_boolean()) return wrong(field, "true or false");
  return value.get<bool>();
}

Result<std::vector<int32_t>> token_ids(const json& value, std::string_view field) {
  if (!value.is_array()) return wrong(field, "an array of token ids");
  std::vector<int32_t> ids;
  for (const json& element : value) {
    EADEM_ASSIGN_OR_RETURN(const int64_t id, integer(element, field, 0, INT32_MAX));
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

Result<std::vector<std::string>> strings(const json& value, std::string_view field) {
  if (value.is_string()) return std::vector<std::string>{value.get<std::string>()};
  if (!value.is_array()) return wrong(field, "a string or an array of strings");
  std::vector<std::string> texts;
  for (const json& element : value) {
    if (!element.is_string()) return wrong(field, "a string or an array of strings");
    texts.push_back(element.get<std::string>());
  }
  return texts;
}

// {"50256": -100}: token ids are JSON keys, so strings.
Result<std::vector<std::pair<int32_t, float>>> biases(const json& value, std::string_view field) {
  if (!value.is_object()) return wrong(field, "an object from token id to bias");
  std::vector<std::pair<int32_t, float>> result;
  for (const auto& [key, bias] : value.items()) {
    int32_t id = 0;
    const char* const end = key.data() + key.size();
    const auto parsed = std::from_chars(key.data(), end, id);
    if (parsed.ec != std::errc{} || parsed.ptr != end || id < 0) {
      return wrong(field, "an object whose keys are token ids");
    }
    EADEM_ASSIGN_OR_RETURN(const float amount, number(bias, field));
    result.emplace_back(id, amount);
  }
  return result;
}

// logprobs: 3, or as in chat: true with top_logprobs: 3.
Result<int> logprob_count(const json& value, std::string_view field) {
  if (value.is_boolean()) return value.get<bool>() ? 0 : -1;
  EADEM_ASSIGN_OR_RETURN(const int64_t count, integer(value, field, -1, INT32_MAX));
  return static_cast<int>(count);
}

template <class T>
Result<void> set(T& field, Result<T> parsed) {
  if (!parsed.ok()) return Error{parsed.error()};
  field = std::move(parsed).value();
  return {};
}

Result<void> set_int(int& field, Result<int64_t> parsed) {
  if (!parsed.ok()) return Error{parsed.error()};
  field = static_cast<int>(parsed.value());
  return {};
}

using Reader = std::function<Result<void>(ParsedRequest&, const json&, std::string_view)>;

Reader read_number(float SamplingParams::* member) {
  return
      [member](ParsedRequest& r, const json& v, std::string_view f) { return set(r.sampling.*member, number(v, f)); };
}
Reader read_count(int SamplingParams::* member, int64_t least) {
  return [member, least](ParsedRequest& r, const json& v, std::string_view f) {
    return set_int(r.sampling.*member, integer(v, f, least, INT32_MAX));
  };
}
Reader read_flag(bool SamplingParams::* member) {
  return [member](ParsedRequest& r, const json& v, std::string_view f) { return set(r.sampling.*member, flag(v, f)); };
}
Reader read_tokens(std::vector<int32_t> SamplingParams::* member) {
  return [member](ParsedRequest& r, const json& v, std::string_view f) {
    return set(r.sampling.*member, token_ids(v, f));
  };
}
Reader read_logprobs(int SamplingParams::* member) {
  return [member](ParsedRequest& r, const json& v, std::string_view f) {
    return set(r.sampling.*member, logprob_count(v, f));
  };
}
// A JSON value that is passed on as text.
Reader keep_text(std::string ParsedRequest::* member, json::value_t type, std::string wanted) {
  return [member, type, wanted](ParsedRequest& r, const json& v, std::string_view f) -> Result<void> {
    if (v.type() != type) return wrong(f, wanted);
    r.*member = v.dump();
    return {};
  };
}

Result<void> read_id(ParsedRequest& request, const json& value, std::string_view field) {
  if (!value.is_string()) return wrong(field, "a string");
  request.id = value.get<std::string>();
  return {};
}

Result<void> read_prompt(ParsedRequest& request, const json& value, std::string_view field) {
  if (value.is_string()) {
    request.prompt = value.get<std::string>();
    return {};
  }
  EADEM_ASSIGN_OR_RETURN(request.prompt, token_ids(value, field));
  return {};
}

Result<void> read_seed(ParsedRequest& request, const json& value, std::string_view field) {
  if (!value.is_number_integer() || (!value.is_number_unsigned() && value.get<int64_t>() < 0)) {
    return wrong(field, "an integer in 0 ... 18446744073709551615");
  }
  request.sampling.seed = value.get<uint64_t>();
  return {};
}

Result<void> read_guide_field(ParsedRequest& request, const json& value, std::string_view field) {
  EADEM_ASSIGN_OR_RETURN(auto guide, read_guide(value, field));
  if (!guide) return {};
  if (!request.guide_field.empty()) {
    return Error{"field '" + std::string(field) + "' and '" + request.guide_field +
                 "' both say what the answer must match"};
  }
  request.guide_field = field;
  request.sampling.guide = std::move(guide);
  return {};
}

Result<void> read_logprobs_mode(ParsedRequest& request, const json& value, std::string_view field) {
  if (value == "raw" || value == "raw_logprobs") {
    request.sampling.processed_logprobs = false;
  } else if (value == "processed" || value == "processed_logprobs") {
    request.sampling.processed_logprobs = true;
  } else {
    return wrong(field, "\"raw\" or \"processed\"");
  }
  return {};
}

const std::map<std::string, Reader, std::less<>>& readers() {
  using S = SamplingParams;
  static const std::map<std::string, Reader, std::less<>> table = {
      {"id", read_id},
      {"prompt", read_prompt},
      {"messages", keep_text(&ParsedRequest::messages, json::value_t::array, "an array of messages")},
      {"tools", keep_text(&ParsedRequest::tools, json::value_t::array, "an array of tools")},
      {"chat_template_kwargs", keep_text(&ParsedRequest::template_kwargs, json::value_t::object, "an object")},
      {"max_tokens", read_count(&S::max_tokens, 0)},
      {"max_completion_tokens", read_count(&S::max_tokens, 0)},
      {"min_tokens", read_count(&S::min_tokens, 0)},
      {"temperature", read_number(&S::temperature)},
      {"top_p", read_number(&S::top_p)},
      {"top_k", read_count(&S::top_k, -1)},
      {"min_p", read_number(&S::min_p)},
      {"repetition_penalty", read_number(&S::repetition_penalty)},
      {"presence_penalty", read_number(&S::presence_penalty)},
      {"frequency_penalty", read_number(&S::frequency_penalty)},
      {"logit_bias",
       [](ParsedRequest& r, const json& v, std::string_view f) { return set(r.sampling.logit_bias, biases(v, f)); }},
      {"seed", read_seed},
      {"n", read_count(&S::n, 1)},
      {"stop", [](ParsedRequest& r, const json& v, std::string_view f) { return set(r.sampling.stop, strings(v, f)); }},
      {"stop_token_ids", read_tokens(&S::stop_token_ids)},
      {"ignore_eos", read_flag(&S::ignore_eos)},
      {"include_stop_str_in_output", read_flag(&S::include_stop_str_in_output)},
      {"skip_special_tokens", read_flag(&S::skip_special_tokens)},
      {"logprobs", read_logprobs(&S::logprobs)},
      {"top_logprobs", read_logprobs(&S::logprobs)},
      {"prompt_logprobs", read_logprobs(&S::prompt_logprobs)},
      {"logprobs_mode", read_logprobs_mode},
      {"golden_token_ids", read_tokens(&S::golden_token_ids)},
      {"response_format", read_guide_field},
      {"guided_json", read_guide_field},
      {"guided_regex", read_guide_field},
      {"guided_grammar", read_guide_field},
      {"guided_choice", read_guide_field},
      {"structured_outputs", read_guide_field},
  };
  return table;
}

ordered_json number_or_null(float value) {
  return std::isnan(value) ? ordered_json(nullptr) : ordered_json(double{value});
}

ordered_json logprobs_of(const std::vector<SampledToken>& tokens) {
  ordered_json values = ordered_json::array();
  for (const SampledToken& token : tokens) values.push_back(number_or_null(token.logprob));
  return values;
}

// For each token an array of {"token_id", "logprob"}, best first: an array keeps the order, which an object would not.
ordered_json top_of(const std::vector<SampledToken>& tokens) {
  ordered_json values = ordered_json::array();
  for (const SampledToken& token : tokens) {
    ordered_json top = ordered_json::array();
    for (const TokenLogprob& entry : token.top) {
      top.push_back({{"token_id", entry.token}, {"logprob", number_or_null(entry.logprob)}});
    }
    values.push_back(std::move(top));
  }
  return values;
}

Result<void> read_fields(const json& line, ParsedRequest& request) {
  if (!line.is_object()) return Error{"a request must be a JSON object"};
  for (const auto& [field, value] : line.items()) {
    const auto reader = readers().find(field);
    if (reader == readers().end())
      return Error{"unknown field " + weights::quote(field) + ": remove it (docs/requests.md lists what there is)"};
    if (value.is_null()) continue;  // absent, as clients write it
    EADEM_RETURN_IF_ERROR(reader->second(request, value, field));
  }
  // In chat, "logprobs": true only switches them on; the count is top_logprobs.
  if (line.contains("top_logprobs") && line["top_logprobs"].is_number()) {
    EADEM_ASSIGN_OR_RETURN(request.sampling.logprobs, logprob_count(line["top_logprobs"], "top_logprobs"));
  }
  if (request.sampling.top_k < 0) request.sampling.top_k = 0;  // -1 is vLLM's "off"
  return {};
}

// Fields are kept in order and found by going through them, so their number is bounded.
constexpr size_t kMostFields = 4096;
struct TooManyFields {};

// The parser itself does not recurse, but writing a value does: deep nesting would end the stack.
Result<void> check_nesting(std::string_view text) {
  constexpr int kDeepest = 100;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepest) return Error{"nested deeper than " + std::to_string(kDeepest) + " levels"};
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return {};
}

}  // namespace

Result<json> parse_line(std::string_view text) {
  EADEM_RETURN_IF_ERROR(check_nesting(text));
  std::set<std::string> keys;
  std::string twice;
  std::vector<size_t> counts;  // fields so far of the objects that are open
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) {
      counts.push_back(0);
    } else if (event == json::parse_event_t::object_end) {
      counts.pop_back();
    } else if (event == json::parse_event_t::key) {
      if (++counts.back() > kMostFields) throw TooManyFields();
      if (depth == 1 && !keys.insert(parsed.get<std::string>()).second) twice = parsed.get<std::string>();
    }
    return true;
  };
  try {
    json line = json::parse(text, watch);
    if (!twice.empty()) return Error{"field " + weights::quote(twice) + " stands there twice"};
    return line;
  } catch (const json::parse_error& fault) {
    return Error{"not valid JSON (at byte " + std::to_string(fault.byte) + ")"};
  } catch (const json::out_of_range&) {
    return Error{"not valid JSON: a number is too large"};
  } catch (const TooManyFields&) {
    return Error{"an object has more than " + std::to_string(kMostFields) + " fields"};
  }
}

Result<ParsedRequest> parse_request(const json& line, const SamplingParams& defaults) {
  const FpEnvironment environment;  // numbers are rounded once, to nearest
  ParsedRequest request;
  request.sampling = defaults;
  EADEM_RETURN_IF_ERROR(read_fields(line, request));
  const bool chat = !request.messages.empty(), text = line.contains("prompt") && !line["prompt"].is_null();
  if (chat == text) return Error{"a request needs either 'prompt' or 'messages'"};
  if (!chat && !(request.tools.empty() && request.template_kwargs.empty())) {
    return Error{"'tools' and 'chat_template_kwargs' go with 'messages'"};
  }
  return request;
}

Result<SamplingParams> parse_sampling(const json& fields, const SamplingParams& defaults) {
  ParsedRequest request;
  request.sampling = defaults;
  EADEM_RETURN_IF_ERROR(read_fields(fields, request));
  for (const char* field : {"id", "prompt", "messages", "tools", "chat_template_kwargs"}) {
    if (fields.contains(field)) return Error{"field '" + std::string(field) + "' is no sampling parameter"};
  }
  return std::move(request.sampling);
}

Result<Request> resolve(const Engine& engine, ParsedRequest parsed) {
  Request request;
  if (parsed.sampling.guide) {
    const auto usable = engine.check_guide(*parsed.sampling.guide);
    const std::string field = parsed.guide_field.empty() ? "guide" : "field '" + parsed.guide_field + "'";
    if (!usable.ok()) return Error{field + ": " + usable.error().message};
  }
  request.id = std::move(parsed.id);
  request.sampling = std::move(parsed.sampling);
  if (!parsed.messages.empty()) {
    EADEM_ASSIGN_OR_RETURN(const std::string text,
                           engine.render_chat(parsed.messages, parsed.tools, parsed.template_kwargs));
    EADEM_ASSIGN_OR_RETURN(request.prompt_token_ids, engine.tokenize(text, false));
  } else if (const auto* text = std::get_if<std::string>(&parsed.prompt)) {
    EADEM_ASSIGN_OR_RETURN(request.prompt_token_ids, engine.tokenize(*text));
  } else {
    request.prompt_token_ids = std::get<std::vector<int32_t>>(std::move(parsed.prompt));
  }
  // The effective number: what does not fit behind the prompt is not drawn, and the answer tells so. (At least one
  // stays, so that a prompt that is too long itself is refused by name.)
  const int64_t room = engine.info().max_model_len - static_cast<int64_t>(request.prompt_token_ids.size());
  int& max_tokens = request.sampling.max_tokens;
  if (max_tokens > room) max_tokens = static_cast<int>(std::max<int64_t>(room, 1));
  return request;
}

ordered_json to_json(const SamplingParams& sampling) {
  ordered_json object = {{"max_tokens", sampling.max_tokens},
                         {"min_tokens", sampling.min_tokens},
                         {"temperature", double{sampling.temperature}},
                         {"top_k", sampling.top_k},
                         {"top_p", double{sampling.top_p}},
                         {"min_p", double{sampling.min_p}},
                         {"repetition_penalty", double{sampling.repetition_penalty}},
                         {"presence_penalty", double{sampling.presence_penalty}},
                         {"frequency_penalty", double{sampling.frequency_penalty}},
                         {"n", sampling.n},
                         {"ignore_eos", sampling.ignore_eos},
                         {"include_stop_str_in_output", sampling.include_stop_str_in_output},
                         {"skip_special_tokens", sampling.skip_special_tokens},
                         {"logprobs", sampling.logprobs},
                         {"prompt_logprobs", sampling.prompt_logprobs},
                         {"logprobs_mode", sampling.processed_logprobs ? "processed" : "raw"}};
  if (sampling.seed) object["seed"] = *sampling.seed;
  if (!sampling.stop.empty()) object["stop"] = sampling.stop;
  if (!sampling.stop_token_ids.empty()) object["stop_token_ids"] = sampling.stop_token_ids;
  if (!sampling.golden_token_ids.empty()) object["golden_token_ids"] = sampling.golden_token_ids;
  if (sampling.guide) write_guide(*sampling.guide, object);
  for (const auto& [token, bias] : sampling.logit_bias) object["logit_bias"][std::to_string(token)] = double{bias};
  return object;
}

ordered_json to_json(const Engine& engine, const Request& request, const Completion& answer) {
  std::vector<int32_t> ids;
  for (const SampledToken& token : answer.tokens) ids.push_back(token.token);
  ordered_json object;
  if (!request.id.empty()) object["id"] = request.id;
  object["index"] = answer.index;
  object["prompt_token_ids"] = request.prompt_token_ids;
  object["token_ids"] = ids;
  object["text"] = answer.text;
  if (request.sampling.logprobs >= 0) {
    object["logprobs"] = logprobs_of(answer.tokens);
    if (request.sampling.logprobs > 0) object["top_logprobs"] = top_of(answer.tokens);
  }
  if (request.sampling.prompt_logprobs >= 0) {
    object["prompt_logprobs"] = logprobs_of(answer.prompt_tokens);
    if (request.sampling.prompt_logprobs > 0) object["prompt_top_logprobs"] = top_of(answer.prompt_tokens);
  }
  object["finish_reason"] = to_string(answer.finish_reason);
  if (!answer.error.empty()) object["error"] = answer.error;
  object["seed"] = answer.seed;
  object["numerics"] = engine.info().numerics;
  object["fingerprint"] = engine.identity();
  if (!answer.kv_hash.empty()) object["kv_hash"] = answer.kv_hash;
  const size_t prompt = request.prompt_token_ids.size(), completion = answer.tokens.size();
  object["usage"] = {{"prompt_tokens", prompt},
                     {"completion_tokens", completion},
                     {"total_tokens", prompt + completion},
                     {"cached_tokens", answer.cached_tokens}};
  if (answer.drafted_tokens > 0) {
    object["usage"]["drafted_tokens"] = answer.drafted_tokens;
    object["usage"]["accepted_tokens"] = answer.accepted_tokens;
  }
  object["sampling"] = to_json(request.sampling);
  return object;
}

}  // namespace eadem::api
