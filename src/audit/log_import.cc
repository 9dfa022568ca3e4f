#include "audit/log_import.h"

#include <algorithm>
#include <set>

#include "api/request_json.h"
#include "audit/corpus.h"
#include "text/blake3.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

// Of the server's API alone, or about how an answer is told: none of them moves a token.
constexpr std::string_view kDropped[] = {"model",
                                         "stream",
                                         "stream_options",
                                         "return_token_ids",
                                         "return_tokens_as_token_ids",
                                         "priority",
                                         "timeout",
                                         "user",
                                         "metadata",
                                         "store",
                                         "service_tier",
                                         "prompt_cache_key",
                                         "prompt_cache_retention",
                                         "safety_identifier",
                                         "echo",
                                         "logprobs",
                                         "top_logprobs",
                                         "prompt_logprobs",
                                         "parallel_tool_calls"};

const ordered_json* member(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const ordered_json& object, const char* name) {
  const ordered_json* const value = member(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

bool is_answered_request(const ordered_json& line) {
  if (!line.is_object() || text_of(line, "event") != "request" || line.value("status", ordered_json()) != 200) {
    return false;
  }
  const std::string path = text_of(line, "path");
  return path.ends_with("/v1/completions") || path.ends_with("/v1/chat/completions");
}

// Sets aside what a corpus cannot hold. The reasons name no content.
Result<void> reduce(ordered_json& body) {
  for (const std::string_view field : kDropped) body.erase(std::string(field));
  if (const ordered_json* choice = member(body, "tool_choice"); choice != nullptr && *choice != "auto") {
    return Error{"tool_choice other than auto"};
  }
  body.erase("tool_choice");
  for (const char* field : {"add_generation_prompt", "add_special_tokens"}) {
    if (const ordered_json* value = member(body, field); value != nullptr && *value != true) {
      return Error{std::string(field) + " false"};
    }
    body.erase(field);
  }
  if (const ordered_json* value = member(body, "continue_final_message"); value != nullptr && *value != false) {
    return Error{"continue_final_message"};
  }
  body.erase("continue_final_message");
  if (member(body, "golden_token_ids") != nullptr) return Error{"token ids, which cannot be redacted"};
  return {};
}

// What the server decided where the body did not say.
void complete(const ordered_json& line, int most_tokens, ordered_json& body) {
  if (const ordered_json* same = member(body, "max_completion_tokens")) body["max_tokens"] = *same;
  body.erase("max_completion_tokens");
  const ordered_json* limit = member(body, "max_tokens");
  if (limit == nullptr) limit = member(line, "completion_tokens");
  const int64_t tokens = limit != nullptr && limit->is_number_integer() ? limit->get<int64_t>() : most_tokens;
  body["max_tokens"] = std::clamp<int64_t>(tokens, 1, most_tokens);
  const ordered_json* const temperature = member(body, "temperature");
  const bool greedy = temperature != nullptr && temperature->is_number() && temperature->get<double>() == 0.0;
  if (member(body, "seed") == nullptr && !greedy) {
    const ordered_json* const seed = member(line, "seed");
    body["seed"] = seed != nullptr && seed->is_number_unsigned() ? *seed : ordered_json(0);
  }
}

// The prompts of a body, each of which is a request of its own; one of messages has none.
Result<std::vector<ordered_json>> prompts_of(const ordered_json& body) {
  const ordered_json* const prompt = member(body, "prompt");
  if (prompt == nullptr) return std::vector<ordered_json>{nullptr};
  if (prompt->is_string()) return std::vector<ordered_json>{*prompt};
  std::vector<ordered_json> prompts;
  if (prompt->is_array()) prompts.assign(prompt->begin(), prompt->end());
  const bool texts = std::all_of(prompts.begin(), prompts.end(), [](const auto& p) { return p.is_string(); });
  if (prompts.empty() || !texts) return Error{"token ids, which cannot be redacted"};
  return prompts;
}

class Importer {
 public:
  Importer(int most_tokens, Redactor& redactor) : most_tokens_(most_tokens), redactor_(redactor) {}

  void read(std::string_view text) {
    const auto line = api::parse_line(text);
    if (!line.ok() || !is_answered_request(line.value())) return;
    ++result_.seen;
    if (auto taken = take(line.value()); !taken.ok()) ++result_.left_out[taken.error().message];
  }
  LogImport result() { return std::move(result_); }

 private:
  Result<void> take(const ordered_json& line) {
    const std::string text = text_of(line, "body");
    if (text.empty()) return Error{"no body: serve with --log-prompts"};
    auto parsed = api::parse_line(text);
    if (!parsed.ok() || !parsed.value().is_object()) return Error{"a body that was cut at 16 KiB"};
    ordered_json body = std::move(parsed).value();
    EADEM_RETURN_IF_ERROR(reduce(body));
    EADEM_ASSIGN_OR_RETURN(const std::vector<ordered_json> prompts, prompts_of(body));
    complete(line, most_tokens_, body);
    for (const ordered_json& prompt : prompts) {
      if (!prompt.is_null()) body["prompt"] = prompt;
      EADEM_RETURN_IF_ERROR(add(redactor_.redact_json(body)));
    }
    return {};
  }

  Result<void> add(const ordered_json& request) {
    const auto dump = [](const ordered_json& value) {
      return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    };
    text::Blake3 hash;
    hash.update(dump(request));
    const std::string id = "log-" + hash.hex_digest().substr(0, 16);
    if (!ids_.insert(id).second) {
      ++result_.repeated;
      return {};
    }
    ordered_json whole = {{"id", id}};
    for (const auto& [name, value] : request.items()) whole[name] = value;
    const std::string line = dump(whole);
    if (!parse_corpus_line(line).ok()) return Error{"fields that a corpus does not take"};
    result_.lines.push_back(line);
    return {};
  }

  int most_tokens_;
  Redactor& redactor_;
  std::set<std::string> ids_;
  LogImport result_;
};

}  // namespace

LogImport import_log(std::string_view log, int most_tokens, Redactor& redactor) {
  Importer importer(most_tokens, redactor);
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    if (end > 0) importer.read(log.substr(0, end));
    log.remove_prefix(std::min(end + 1, log.size()));
  }
  return importer.result();
}

}  // namespace eadem::audit
