// Takes out of texts what may name or open something: e-mail addresses, credentials in URLs, telephone numbers, keys
// and passwords, long runs of digits, and whatever else a caller's expressions match. What it does not know it leaves,
// and it takes too much rather than too little.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace eadem::audit {

class Redactor {
 public:
  // expressions: POSIX extended regular expressions, matched on bytes. Errors: one that does not compile.
  static Result<Redactor> create(const std::vector<std::string>& expressions);

  // The text with placeholders of the same kind, numbered in the order in which their originals were first seen by this
  // redactor: the same original has the same placeholder. Time is linear in the text (for the built-in kinds).
  std::string redact(std::string_view text);
  // Every string of a JSON value, names of fields too.
  nlohmann::ordered_json redact_json(const nlohmann::ordered_json& value);

  // Replacements so far, by kind: "email", "url", "phone", "key", "digits", "custom".
  const std::map<std::string, uint64_t>& counts() const { return counts_; }

 private:
  struct Expressions;
  struct Span {
    size_t begin, end;
    int kind;  // smaller: counts first where two overlap
  };

  Redactor() = default;
  void find_custom(std::string_view text, std::vector<Span>& spans) const;
  std::string placeholder(int kind, std::string_view original);

  std::shared_ptr<const Expressions> expressions_;
  std::map<std::string, uint64_t> counts_;
  std::map<int, std::map<std::string, uint64_t, std::less<>>> seen_;  // kind -> original -> number
};

}  // namespace eadem::audit
