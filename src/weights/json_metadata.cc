#include "weights/json_metadata.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weights/json_text.h"
#include "weights/message.h"

namespace eadem::weights {
namespace {

using nlohmann::json;

bool fits_int64(const json& value) {
  return value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX});
}

template <class Predicate>
bool all(const json& array, Predicate predicate) {
  return std::all_of(array.begin(), array.end(), predicate);
}

Metadata::Value scalar(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (fits_int64(value)) return value.get<int64_t>();
  if (value.is_number_integer()) return value.get<uint64_t>();
  if (value.is_number()) return value.get<double>();
  return value.get<std::string>();
}

// The array as one value, or nothing where it must be flattened by index.
std::optional<Metadata::Value> array_value(const json& array) {
  if (all(array, fits_int64)) return array.get<std::vector<int64_t>>();  // the empty array too
  if (all(array, [](const json& v) { return v.is_boolean(); })) return array.get<std::vector<bool>>();
  if (all(array, [](const json& v) { return v.is_number(); })) return array.get<std::vector<double>>();
  if (all(array, [](const json& v) { return v.is_string(); })) {
    StringList list;
    for (const json& text : array) list.push_back(text.get_ref<const std::string&>());
    return list;
  }
  return std::nullopt;
}

class Flattener {
 public:
  explicit Flattener(Metadata& out) : out_(out) {}

  // Depth is bounded by the parser.
  Result<void> add(const std::string& key, const json& value) {
    if (value.is_null()) return {};
    if (value.is_object()) {
      for (const auto& [name, child] : value.items())
        EADEM_RETURN_IF_ERROR(add(key.empty() ? name : key + "." + name, child));
      return {};
    }
    if (!value.is_array()) return put(key, scalar(value));
    if (auto whole = array_value(value)) return put(key, *std::move(whole));
    for (size_t i = 0; i < value.size(); ++i) EADEM_RETURN_IF_ERROR(add(key + "." + std::to_string(i), value[i]));
    return {};
  }

 private:
  Result<void> put(const std::string& key, Metadata::Value value) {
    if (out_.add(key, std::move(value))) return {};
    return Error{out_.file() + ": the key " + quote(key) + " is there twice once nested objects are flattened"};
  }

  Metadata& out_;
};

}  // namespace

Result<Metadata> read_json_metadata(std::string_view text, const std::string& file) {
  EADEM_ASSIGN_OR_RETURN(const json parsed, parse_json_object(text, file));
  Metadata metadata(file);
  EADEM_RETURN_IF_ERROR(Flattener(metadata).add("", parsed));
  return metadata;
}

}  // namespace eadem::weights
