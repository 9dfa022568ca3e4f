#include "audit/black_box/answer.h"

#include <algorithm>

namespace eadem::audit::black_box {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMaxChoices = 1024;
constexpr size_t kMaxMessage = 300;

std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  if (text.size() > kMaxMessage) {
    size_t end = kMaxMessage;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
    text = text.substr(0, end) + "...";
  }
  return text;
}

// A member of an object; null where there is none, or no object.
const ordered_json& member(const ordered_json& object, const char* name) {
  static const ordered_json null;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : null;
}

std::string text_of(const ordered_json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }

int64_t integer_of(const ordered_json& value) { return value.is_number_integer() ? value.get<int64_t>() : -1; }

void add_ids(std::vector<int64_t>& to, const ordered_json& list) {
  if (!list.is_array()) return;
  for (const ordered_json& id : list) to.push_back(integer_of(id));
}

ordered_json number_or_null(const ordered_json& value) { return value.is_number() ? value : ordered_json(); }

// {"name": number, ...} or [{"token": name, "logprob": number}, ...] as [[name, number], ...].
ordered_json likely(const ordered_json& given) {
  ordered_json list = ordered_json::array();
  if (given.is_object()) {
    for (const auto& [name, value] : given.items()) list.push_back({name, number_or_null(value)});
  } else if (given.is_array()) {
    for (const ordered_json& one : given)
      list.push_back({text_of(member(one, "token")), number_or_null(member(one, "logprob"))});
  }
  return list;
}

// The lists of a completion: `tokens`, `token_logprobs`, `top_logprobs` side by side.
void add_lists(Choice& to, const ordered_json& logprobs) {
  const ordered_json& tokens = member(logprobs, "tokens");
  const ordered_json& numbers = member(logprobs, "token_logprobs");
  const ordered_json& top = member(logprobs, "top_logprobs");
  if (tokens.is_array()) {
    for (const ordered_json& token : tokens) to.tokens.push_back(text_of(token));
  }
  if (numbers.is_array()) {
    for (const ordered_json& number : numbers) to.logprobs.push_back(number_or_null(number));
  }
  if (top.is_array()) {
    for (const ordered_json& one : top) to.top_logprobs.push_back(likely(one));
  }
}

// A chat's list of objects, each with `token`, `logprob`, `top_logprobs`.
void add_content(Choice& to, const ordered_json& content) {
  if (!content.is_array()) return;
  for (const ordered_json& entry : content) {
    to.tokens.push_back(text_of(member(entry, "token")));
    to.logprobs.push_back(number_or_null(member(entry, "logprob")));
    if (member(entry, "top_logprobs").is_array()) to.top_logprobs.push_back(likely(member(entry, "top_logprobs")));
  }
}

}  // namespace

std::string error_message(std::string_view body) {
  const ordered_json parsed = ordered_json::parse(body, nullptr, false);
  const ordered_json& error = member(parsed, "error");
  for (const ordered_json* where :
       {&member(error, "message"), &error, &member(parsed, "message"), &member(parsed, "detail")}) {
    if (where->is_string()) return one_line(where->get<std::string>());
  }
  return {};
}

Result<int> AnswerReader::add_choice(const ordered_json& choice) {
  const int64_t index = member(choice, "index").is_null() ? 0 : integer_of(member(choice, "index"));
  if (!choice.is_object() || index < 0 || index >= kMaxChoices) return Error{"has a choice without a proper index"};
  if (answer_.choices.size() <= static_cast<size_t>(index)) answer_.choices.resize(static_cast<size_t>(index) + 1);
  Choice& to = answer_.choices[static_cast<size_t>(index)];
  const ordered_json& message =
      member(choice, "message").is_object() ? member(choice, "message") : member(choice, "delta");
  const std::string text = message.is_object()
                               ? text_of(member(message, "reasoning_content")) + text_of(member(message, "content"))
                               : text_of(member(choice, "text"));
  const size_t tokens = to.tokens.size(), ids = to.token_ids.size();
  to.text += text;
  add_ids(to.token_ids, member(choice, "token_ids"));
  add_ids(to.prompt_token_ids, member(choice, "prompt_token_ids"));
  add_lists(to, member(choice, "logprobs"));
  add_content(to, member(member(choice, "logprobs"), "content"));
  const size_t brought =
      std::max({to.tokens.size() - tokens, to.token_ids.size() - ids, size_t{text.empty() ? 0U : 1U}});
  if (brought > 0 && !to.finish_reason.empty()) return Error{"has a choice that goes on after its finish_reason"};
  if (const std::string reason = text_of(member(choice, "finish_reason")); !reason.empty()) to.finish_reason = reason;
  return static_cast<int>(brought);
}

Result<int> AnswerReader::add(std::string_view json) {
  const ordered_json parsed = ordered_json::parse(json, nullptr, false);
  if (!parsed.is_object())
    return Error{"sent what is no JSON object: '" + one_line(std::string(json.substr(0, 80))) + "'"};
  if (!member(parsed, "error").is_null()) {
    const std::string message = error_message(json);
    return Error{"reports a failure: " + (message.empty() ? std::string("without a message") : message)};
  }
  const ordered_json& choices = member(parsed, "choices");
  if (!choices.is_array()) return Error{"sent an object without `choices`"};
  any_ = true;
  if (const std::string model = text_of(member(parsed, "model")); !model.empty()) answer_.model = model;
  if (const std::string print = text_of(member(parsed, "system_fingerprint")); !print.empty())
    answer_.system_fingerprint = print;
  if (const ordered_json& usage = member(parsed, "usage"); usage.is_object()) {
    answer_.prompt_tokens = integer_of(member(usage, "prompt_tokens"));
    answer_.completion_tokens = integer_of(member(usage, "completion_tokens"));
    answer_.cached_tokens = integer_of(member(member(usage, "prompt_tokens_details"), "cached_tokens"));
  }
  if (const ordered_json& seeds = member(member(parsed, "eadem"), "answer_seeds"); seeds.is_array()) {
    for (const ordered_json& seed : seeds) {
      if (seed.is_number_unsigned()) answer_.answer_seeds.push_back(seed.get<uint64_t>());
    }
  }
  int brought = 0;
  for (const ordered_json& choice : choices) {
    EADEM_ASSIGN_OR_RETURN(const int more, add_choice(choice));
    brought += more;
  }
  return brought;
}

Result<Answer> AnswerReader::finish() {
  if (!any_ || answer_.choices.empty()) return Error{"ended without an answer"};
  for (const Choice& choice : answer_.choices) {
    if (choice.finish_reason.empty()) return Error{"was cut off: an answer has no finish_reason"};
  }
  return std::move(answer_);
}

ordered_json to_json(const Choice& choice) {
  ordered_json object = ordered_json::object();
  if (!choice.token_ids.empty()) object["token_ids"] = choice.token_ids;
  if (!choice.tokens.empty()) object["tokens"] = choice.tokens;
  if (!choice.logprobs.empty()) object["logprobs"] = choice.logprobs;
  if (!choice.top_logprobs.empty()) object["top_logprobs"] = choice.top_logprobs;
  object["text"] = choice.text;
  object["finish_reason"] = choice.finish_reason;
  return object;
}

}  // namespace eadem::audit::black_box
