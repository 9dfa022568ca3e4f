#include "audit/redact.h"

#include <regex.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>

namespace eadem::audit {
namespace {

enum Kind : int { kCustom, kUrl, kEmail, kKey, kPhone, kDigits, kKinds };
constexpr std::array<std::string_view, kKinds> kNames = {"custom", "url", "email", "key", "phone", "digits"};

bool digit(char c) { return c >= '0' && c <= '9'; }
bool lower(char c) { return c >= 'a' && c <= 'z'; }
bool upper(char c) { return c >= 'A' && c <= 'Z'; }
bool letter(char c) { return lower(c) || upper(c); }
bool word(char c) { return letter(c) || digit(c) || c == '_'; }
bool beyond_ascii(char c) { return static_cast<unsigned char>(c) >= 0x80; }
bool local_part(char c) { return word(c) || beyond_ascii(c) || c == '.' || c == '%' || c == '+' || c == '-'; }
bool domain_part(char c) { return letter(c) || digit(c) || beyond_ascii(c) || c == '-' || c == '.'; }
bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

char to_lower(char c) { return upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

bool begins_with(std::string_view text, size_t at, std::string_view what, bool any_case = false) {
  if (text.size() - at < what.size()) return false;
  for (size_t i = 0; i < what.size(); ++i) {
    if ((any_case ? to_lower(text[at + i]) : text[at + i]) != what[i]) return false;
  }
  return true;
}

// Calls take(begin, end, kind).
using Take = std::function<void(size_t, size_t, int)>;

// user:password@ of `scheme://user:password@host`. Gives the '@' that belong to URLs.
std::vector<size_t> find_urls(std::string_view text, const Take& take) {
  std::vector<size_t> ats;
  for (size_t at = text.find("://"); at != std::string_view::npos; at = text.find("://", at + 3)) {
    const size_t begin = at + 3;
    size_t end = begin, last = begin;
    for (; end < text.size() && !blank(text[end]) &&
           std::string_view("/\"'<>\\`?#").find(text[end]) == std::string_view::npos;
         ++end) {
      if (text[end] == '@') last = end;
    }
    if (last == begin) continue;
    take(begin, last, kUrl);
    ats.push_back(last);
  }
  return ats;
}

void find_emails(std::string_view text, const std::vector<size_t>& urls, const Take& take) {
  for (size_t at = text.find('@'); at != std::string_view::npos; at = text.find('@', at + 1)) {
    if (std::binary_search(urls.begin(), urls.end(), at)) continue;
    size_t begin = at, end = at + 1;
    while (begin > 0 && local_part(text[begin - 1])) --begin;
    while (end < text.size() && domain_part(text[end])) ++end;
    while (end > at + 1 && (text[end - 1] == '.' || text[end - 1] == '-')) --end;
    const std::string_view domain = text.substr(at + 1, end - at - 1);
    const size_t dot = domain.rfind('.');
    if (begin == at || dot == std::string_view::npos || dot == 0 || domain.size() - dot < 3 || digit(domain[dot + 1])) {
      continue;
    }
    take(begin, end, kEmail);
  }
}

// Digits with at most one separator between two: the whole run, from a '+' or '(' on.
struct Run {
  size_t begin = 0, end = 0;
  size_t digits = 0, longest = 0;  // in all; of a group
  std::vector<size_t> groups;      // their lengths
  bool plain = true;               // separated by ' ' and '-' alone
};

// `at` is a digit, '+' or '('.
Run read_run(std::string_view text, size_t at) {
  Run run{.begin = at, .end = at};
  size_t i = at;
  if (text[i] == '+') ++i;
  if (i < text.size() && text[i] == '(') ++i;
  size_t group = 0;
  const auto close = [&] {
    if (group > 0) run.groups.push_back(group);
    run.longest = std::max(run.longest, group);
    group = 0;
  };
  while (i < text.size()) {
    if (digit(text[i])) {
      ++group;
      ++run.digits;
      run.end = ++i;
      continue;
    }
    size_t next = i;  // one separator, or ") ", or " ("
    while (next < text.size() && next < i + 2 &&
           std::string_view(" -./()").find(text[next]) != std::string_view::npos) {
      ++next;
    }
    const bool joined = next > i && next < text.size() && digit(text[next]) &&
                        (next == i + 1 || text[i] == ')' || text[next - 1] == '(');
    if (!joined) break;
    if (next != i + 1 || (text[i] != ' ' && text[i] != '-')) run.plain = false;
    close();
    i = next;
  }
  close();
  return run;
}

bool is_phone(std::string_view text, const Run& run) {
  if (run.groups == std::vector<size_t>{3, 2, 4}) return false;  // a social security number: digits
  if (text[run.begin] == '+') return run.digits >= 7 && run.digits <= 15;
  if (text[run.begin] == '(') return run.digits >= 7 && run.digits <= 15 && run.groups.size() >= 2;
  if (run.groups == std::vector<size_t>{3, 3, 4} || run.groups == std::vector<size_t>{1, 3, 3, 4}) return true;
  const bool dotted = text.substr(run.begin, run.end - run.begin).find('.') != std::string_view::npos;
  return text[run.begin] == '0' && !dotted && run.groups.size() >= 2 && run.digits >= 9 && run.digits <= 15;
}

bool is_digits(const Run& run) {
  if (run.longest >= 9) return true;
  if (run.groups == std::vector<size_t>{3, 2, 4}) return true;
  const size_t least = run.groups.empty() ? 0 : *std::min_element(run.groups.begin(), run.groups.end() - 1);
  return run.plain && run.digits >= 13 && run.groups.size() >= 2 && least >= 3;  // a card, an account
}

void find_numbers(std::string_view text, const Take& take) {
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const bool starts = digit(c) || ((c == '+' || c == '(') && at + 1 < text.size() &&
                                     (digit(text[at + 1]) || (c == '+' && text[at + 1] == '(')));
    if (!starts) {
      ++at;
      continue;
    }
    const Run run = read_run(text, at);
    if (run.digits == 0) {
      ++at;
      continue;
    }
    if (is_phone(text, run)) {
      take(run.begin, run.end, kPhone);
    } else if (is_digits(run)) {
      take(run.begin, run.end, kDigits);
    }
    at = run.end;
  }
}

bool has_key_prefix(std::string_view token) {
  constexpr std::string_view kPrefixes[] = {"sk-",  "sk_",   "pk_",    "rk_",        "ghp_",  "gho_",  "ghu_",
                                            "ghs_", "ghr_",  "glpat-", "xoxb-",      "xoxp-", "xoxa-", "xapp-",
                                            "AKIA", "ASIA",  "AIza",   "hf_",        "npm_",  "pypi-", "SG.",
                                            "eyJ",  "ya29.", "key-",   "github_pat_"};
  constexpr size_t kLeast = 12;  // characters behind it
  for (const std::string_view prefix : kPrefixes) {
    if (token.starts_with(prefix)) return token.size() >= prefix.size() + kLeast;
  }
  return false;
}

// Letters and digits so mixed that nobody wrote them as words.
bool looks_random(std::string_view token) {
  constexpr size_t kLeast = 20;
  if (token.size() < kLeast) return false;
  size_t digits = 0, lowers = 0, uppers = 0, others = 0;
  bool hex = true;
  for (const char c : token) {
    digits += digit(c);
    lowers += lower(c);
    uppers += upper(c);
    others += !word(c);
    hex = hex && (digit(c) || c == '-' || (to_lower(c) >= 'a' && to_lower(c) <= 'f'));
  }
  if (digits < 2 || lowers + uppers == 0) return false;
  return hex || (lowers >= 3 && uppers >= 3 && digits >= 3 && others * 6 < token.size());
}

bool token_char(char c) { return word(c) || c == '-' || c == '.' || c == '+' || c == '/' || c == '='; }

// Runs of what keys are made of; a path or an address is cut at its slashes.
void find_tokens(std::string_view text, const Take& take) {
  for (size_t at = 0; at < text.size();) {
    if (!token_char(text[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && token_char(text[end])) ++end;
    const std::string_view run = text.substr(at, end - at);
    if (looks_random(run) || has_key_prefix(run)) {
      take(at, end, kKey);
    } else {
      for (size_t begin = at; begin < end;) {
        size_t stop = begin;
        while (stop < end && text[stop] != '/' && text[stop] != '=' && text[stop] != '+') ++stop;
        const std::string_view part = text.substr(begin, stop - begin);
        if (looks_random(part) || has_key_prefix(part)) take(begin, stop, kKey);
        begin = stop + 1;
      }
    }
    at = end;
  }
}

// What follows "password", "api_key", ... and a ':', '=' or "is"; and "Bearer ...".
void find_assignments(std::string_view text, const Take& take) {
  constexpr std::string_view kWords[] = {"password",   "passwd",      "passphrase", "pwd",     "secret",
                                         "token",      "api_key",     "apikey",     "api-key", "api key",
                                         "access_key", "private_key", "credential"};
  // Takes the value that begins at `at`; gives its end.
  const auto value = [&](size_t at, size_t least) {
    while (at < text.size() && (text[at] == ' ' || text[at] == '"' || text[at] == '\'' || text[at] == '`')) ++at;
    size_t end = at;
    while (end < text.size() && !blank(text[end]) &&
           std::string_view("\"'`,;<>(){}[]\\").find(text[end]) == std::string_view::npos) {
      ++end;
    }
    const size_t whole = end;
    while (end > at && (text[end - 1] == '.' || text[end - 1] == '?' || text[end - 1] == '!')) --end;
    if (end - at >= least) take(at, end, kKey);
    return whole;
  };
  // The end of what stands at `at`, or `at` where nothing of the kind does.
  const auto read = [&](size_t at) {
    for (const std::string_view scheme : {std::string_view("bearer "), std::string_view("basic ")}) {
      const bool starts = at == 0 || !word(text[at - 1]);
      if (starts && begins_with(text, at, scheme, true)) return value(at + scheme.size(), 12);
    }
    for (const std::string_view name : kWords) {
      if (!begins_with(text, at, name, true)) continue;
      const size_t behind = at + name.size();
      size_t next = behind;
      while (next < text.size() && next < behind + 4 && std::string_view(" \"'`s").find(text[next]) != text.npos)
        ++next;
      if (next < text.size() && (text[next] == ':' || text[next] == '=')) return value(next + 1, 4);
      for (const std::string_view is : {std::string_view("is: "), std::string_view("is ")}) {
        if (next < text.size() && begins_with(text, next, is, true)) return value(next + is.size(), 6);
      }
    }
    return at;
  };
  for (size_t at = 0; at < text.size();) at = letter(text[at]) ? std::max(read(at), at + 1) : at + 1;
}

void find_private_keys(std::string_view text, const Take& take) {
  constexpr std::string_view kBegin = "-----BEGIN ", kEnd = "-----END ";
  for (size_t at = text.find(kBegin); at != std::string_view::npos;) {
    if (text.substr(at, 60).find("PRIVATE KEY") == std::string_view::npos) {
      at = text.find(kBegin, at + 1);
      continue;
    }
    size_t end = text.find(kEnd, at);
    end = end == std::string_view::npos ? text.size() : std::min(text.find("KEY-----", end), text.size() - 8) + 8;
    take(at, end, kKey);
    at = text.find(kBegin, end);
  }
}

}  // namespace

struct Redactor::Expressions {
  ~Expressions() {
    for (regex_t& expression : compiled) ::regfree(&expression);
  }
  std::vector<regex_t> compiled;
};

Result<Redactor> Redactor::create(const std::vector<std::string>& expressions) {
  auto compiled = std::make_shared<Expressions>();
  for (const std::string& text : expressions) {
    regex_t expression{};
    if (const int fault = ::regcomp(&expression, text.c_str(), REG_EXTENDED); fault != 0) {
      std::array<char, 128> words{};
      ::regerror(fault, &expression, words.data(), words.size());
      return Error{"'" + text + "' is no POSIX extended regular expression: " + words.data()};
    }
    compiled->compiled.push_back(expression);
  }
  Redactor redactor;
  redactor.expressions_ = std::move(compiled);
  return redactor;
}

void Redactor::find_custom(std::string_view text, std::vector<Span>& spans) const {
  for (const regex_t& expression : expressions_->compiled) {
    for (size_t at = 0; at <= text.size();) {
      regmatch_t match{.rm_so = static_cast<regoff_t>(at), .rm_eo = static_cast<regoff_t>(text.size())};
      const int flags = REG_STARTEND | (at > 0 ? REG_NOTBOL : 0);
      if (::regexec(&expression, text.data(), 1, &match, flags) != 0) break;
      const auto begin = static_cast<size_t>(match.rm_so), end = static_cast<size_t>(match.rm_eo);
      if (end > begin) spans.push_back({begin, end, kCustom});
      at = end > begin ? end : begin + 1;
    }
  }
}

// Like what it stands for, so that a prompt keeps its shape; never what anyone could own: names of RFC 2606, numbers
// kept for fiction.
std::string Redactor::placeholder(int kind, std::string_view original) {
  auto& numbers = seen_[kind];
  auto found = numbers.find(original);
  if (found == numbers.end()) found = numbers.emplace(std::string(original), numbers.size() + 1).first;
  const std::string number = std::to_string(found->second);
  ++counts_[std::string(kNames[static_cast<size_t>(kind)])];
  switch (kind) {
    case kUrl: return "user" + number + ":password" + number;
    case kEmail: return "user" + number + "@example.com";
    case kKey: return "key-redacted-" + number;
    case kPhone: {
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "+1-555-01%02llu", static_cast<unsigned long long>(found->second % 100));
      return found->second < 100 ? text.data() : std::string(text.data()) + " ext. " + number;
    }
    case kDigits: return number.size() >= 9 ? number : std::string(9 - number.size(), '0') + number;
    default: return "[redacted-" + number + "]";
  }
}

std::string Redactor::redact(std::string_view text) {
  std::vector<Span> spans;
  const Take take = [&](size_t begin, size_t end, int kind) { spans.push_back({begin, end, kind}); };
  find_custom(text, spans);
  const std::vector<size_t> urls = find_urls(text, take);
  find_emails(text, urls, take);
  find_private_keys(text, take);
  find_tokens(text, take);
  find_assignments(text, take);
  find_numbers(text, take);
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  std::string result;
  size_t at = 0;
  for (size_t i = 0; i < spans.size();) {
    Span whole = spans[i];  // with all that overlap it
    for (++i; i < spans.size() && spans[i].begin < whole.end; ++i) {
      whole.end = std::max(whole.end, spans[i].end);
      whole.kind = std::min(whole.kind, spans[i].kind);
    }
    result += text.substr(at, whole.begin - at);
    result += placeholder(whole.kind, text.substr(whole.begin, whole.end - whole.begin));
    at = whole.end;
  }
  return result += text.substr(at);
}

nlohmann::ordered_json Redactor::redact_json(const nlohmann::ordered_json& value) {
  if (value.is_string()) return redact(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value;
  nlohmann::ordered_json result = value.is_array() ? nlohmann::ordered_json::array() : nlohmann::ordered_json::object();
  for (const auto& [name, member] : value.items()) {
    if (value.is_array()) {
      result.push_back(redact_json(member));
    } else {
      result[redact(name)] = redact_json(member);
    }
  }
  return result;
}

}  // namespace eadem::audit
