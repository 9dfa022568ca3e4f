#include "contract/statement.h"

#include "contract/json_text.h"

namespace eadem::contract {
namespace {

using nlohmann::ordered_json;

Error no_statement(const std::string& what) { return {"no in-toto statement: " + what}; }

Result<Subject> read_subject(const ordered_json& entry) {
  const Error wanted = no_statement("a subject needs a digest: an object of strings");
  if (!entry.is_object() || !entry.contains("digest")) return wanted;
  const ordered_json& digest = entry["digest"];
  if (!digest.is_object() || digest.empty()) return wanted;
  Subject subject;
  for (const auto& [algorithm, value] : digest.items()) {
    if (!value.is_string()) return wanted;
    subject.digest[algorithm] = value.get<std::string>();
  }
  if (!entry.contains("name")) return subject;
  if (!entry["name"].is_string()) return no_statement("the name of a subject must be a string");
  subject.name = entry["name"].get<std::string>();
  return subject;
}

}  // namespace

std::string statement(const std::vector<Subject>& subjects, std::string_view predicate_type,
                      const ordered_json& predicate) {
  ordered_json list = ordered_json::array();
  for (const Subject& subject : subjects) {
    ordered_json digest = ordered_json::object();
    for (const auto& [algorithm, value] : subject.digest) digest[algorithm] = value;
    list.push_back({{"name", subject.name}, {"digest", std::move(digest)}});
  }
  const ordered_json object = {{"_type", kStatementType},
                               {"subject", std::move(list)},
                               {"predicateType", predicate_type},
                               {"predicate", predicate}};
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<Statement> parse_statement(std::string_view json) {
  auto parsed = parse_json(json);
  if (!parsed.ok()) return no_statement(parsed.error().message);
  ordered_json& object = parsed.value();
  if (!object.is_object()) return no_statement("not a JSON object");
  if (object.value("_type", ordered_json()) != kStatementType) {
    return no_statement("field '_type' must be \"" + std::string(kStatementType) + "\"");
  }
  Statement result;
  const auto type = object.find("predicateType"), subjects = object.find("subject");
  if (type == object.end() || !type->is_string()) return no_statement("field 'predicateType' must be a string");
  result.predicate_type = type->get<std::string>();
  if (subjects == object.end() || !subjects->is_array() || subjects->empty()) {
    return no_statement("field 'subject' must be an array of at least one subject");
  }
  for (const ordered_json& entry : *subjects) {
    EADEM_ASSIGN_OR_RETURN(Subject subject, read_subject(entry));
    result.subjects.push_back(std::move(subject));
  }
  const auto predicate = object.find("predicate");
  if (predicate == object.end() || !predicate->is_object()) return no_statement("field 'predicate' must be an object");
  result.predicate = std::move(*predicate);
  return result;
}

}  // namespace eadem::contract
