#include "audit/identity_report.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "api/request_json.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

struct Known {
  std::set<std::string> fingerprints, numerics;
  ordered_json identity = ordered_json::object(), deployment = ordered_json::object();  // fields, where told
};

// The first of the names that an object has as an object.
ordered_json object_at(const ordered_json& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (object.contains(name) && object[name].is_object()) return object[name];
  }
  return ordered_json::object();
}

Result<Known> read_about(const IdentitySide& side) {
  Known known{side.fingerprints, side.numerics};
  if (side.about.empty()) return known;
  std::ifstream file(side.about);
  if (!file) return Error{"cannot read " + side.about + ": check the path and its permissions"};
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto parsed = api::parse_line(text);
  if (!parsed.ok()) return Error{side.about + ": " + parsed.error().message};
  ordered_json about = std::move(parsed).value();
  // `eadem info --json` has the engine's part in "model".
  if (about.is_object() && about.contains("model") && about["model"].is_object()) {
    const ordered_json model = about["model"];  // a copy: adding fields moves those that are there
    for (const auto& [name, value] : model.items()) about[name] = value;
  }
  if (!about.is_object() || !about.contains("fingerprint") || !about["fingerprint"].is_string())
    return Error{side.about + ": it tells no fingerprint; `eadem info -m MODEL --json` and GET /v1/fingerprint do"};
  const auto fingerprint = about["fingerprint"].get<std::string>();
  if (!known.fingerprints.empty() && known.fingerprints != std::set<std::string>{fingerprint})
    return Error{side.about + ": its fingerprint is another than that of the answers"};
  known.fingerprints = {fingerprint};
  if (about.contains("numerics") && about["numerics"].is_string())
    known.numerics = {about["numerics"].get<std::string>()};
  known.identity = object_at(about, {"covers", "identity_parts", "identity"});
  known.deployment = object_at(about, {"deployment_parts", "deployment"});
  return known;
}

ordered_json differing(const ordered_json& a, const ordered_json& b) {
  ordered_json fields = ordered_json::array();
  if (a.empty() || b.empty()) return fields;
  ordered_json all = a;
  all.update(b);
  for (const auto& [field, value] : all.items()) {
    const ordered_json of_a = a.value(field, ordered_json()), of_b = b.value(field, ordered_json());
    if (of_a != of_b) fields.push_back({{"field", field}, {"a", of_a}, {"b", of_b}});
  }
  return fields;
}

std::string names(const ordered_json& fields) {
  std::string text;
  for (const ordered_json& field : fields) text += (text.empty() ? "" : ", ") + std::string(field["field"]);
  return text;
}

}  // namespace

Result<ordered_json> identity_report(const IdentitySide& left, const IdentitySide& right, bool bits_differ) {
  EADEM_ASSIGN_OR_RETURN(const Known a, read_about(left));
  EADEM_ASSIGN_OR_RETURN(const Known b, read_about(right));
  const bool told = !a.fingerprints.empty() && !b.fingerprints.empty();
  const bool single = a.fingerprints.size() == 1 && b.fingerprints.size() == 1;
  const bool free = [&] {  // promises nothing
    for (const std::string& name : a.numerics) {
      if (name.ends_with("-free")) return true;
    }
    return false;
  }();
  const bool equal = told && a.fingerprints == b.fingerprints;
  ordered_json fields = differing(a.identity, b.identity);
  if (fields.empty() && !a.numerics.empty() && !b.numerics.empty() && a.numerics != b.numerics)
    fields.push_back({{"field", "numerics"}, {"a", a.numerics}, {"b", b.numerics}});
  const ordered_json deployment = differing(a.deployment, b.deployment);
  const bool bug = equal && single && bits_differ && !free;
  std::string statement;
  if (!told) {
    statement = "no fingerprint is told on both sides, so nothing was promised";
  } else if (!equal) {
    statement = "the identities differ" + (fields.empty() ? std::string() : ", in " + names(fields)) +
                ": other bits are no fault";
    if (a.identity.empty() || b.identity.empty()) statement += " (--about-a and --about-b tell all fields)";
  } else if (free) {
    statement = "the identities are equal, but free order promises nothing";
  } else if (!single) {
    statement = "both sides hold answers of several fingerprints: compare them one by one";
  } else if (!bits_differ) {
    statement = "the identities are equal, and no bit was found to differ";
  } else {
    statement = "the bits differ under equal identity: this is a bug";
    statement += deployment.empty() ? "" : "; the deployments differ in " + names(deployment);
  }
  return ordered_json{{"equal", told ? ordered_json(equal) : ordered_json()},
                      {"differing", fields},
                      {"deployment_differing", deployment},
                      {"bug", bug},
                      {"statement", statement}};
}

}  // namespace eadem::audit
