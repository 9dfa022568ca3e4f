#include "audit/corpus_manifest.h"

#include <algorithm>
#include <optional>
#include <set>

#include "api/request_json.h"
#include "text/blake3.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

Error wrong(const std::string& field, const std::string& wanted) {
  return Error{"field '" + field + "' must be " + wanted};
}

// All of `fields` and nothing else.
Result<void> check_fields(const ordered_json& object, const std::set<std::string>& fields, const std::string& where) {
  for (const auto& [name, value] : object.items()) {
    if (fields.count(name) == 0) return Error{where + "unknown field '" + name + "': remove it"};
  }
  for (const std::string& name : fields) {
    if (!object.contains(name)) return Error{where + "field '" + name + "' is missing"};
  }
  return {};
}

Result<std::string> text_field(const ordered_json& object, const char* name, size_t most) {
  const ordered_json& value = object[name];
  if (!value.is_string() || value.get_ref<const std::string&>().empty() ||
      value.get_ref<const std::string&>().size() > most) {
    return wrong(name, "a text of 1 to " + std::to_string(most) + " bytes");
  }
  return value.get<std::string>();
}

Result<uint64_t> count_field(const ordered_json& object, const char* name, uint64_t most) {
  const ordered_json& value = object[name];
  if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 || value.get<uint64_t>() > most) {
    return wrong(name, "an integer in 1 ... " + std::to_string(most));
  }
  return value.get<uint64_t>();
}

bool is_digest(std::string_view text) {
  return text.size() == 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Result<std::string> digest_field(const ordered_json& object, const char* name) {
  if (!object[name].is_string() || !is_digest(object[name].get_ref<const std::string&>())) {
    return wrong(name, "64 hexadecimal digits");
  }
  return object[name].get<std::string>();
}

Result<CorpusFile> parse_file(const ordered_json& entry, bool frozen, const std::string& where) {
  if (!entry.is_object()) return Error{where + "must be an object"};
  std::set<std::string> fields = {"name", "category", "level"};
  if (frozen) fields.insert({"requests", "bytes", "blake3"});
  EADEM_RETURN_IF_ERROR(check_fields(entry, fields, where));
  CorpusFile file;
  EADEM_ASSIGN_OR_RETURN(file.name, text_field(entry, "name", 128));
  if (!is_plain_name(file.name) || !file.name.ends_with(".jsonl")) {
    return Error{where +
                 "field 'name' is no name of a JSONL file in the corpus's own folder (letters, digits, '.', "
                 "'_', '-', ending with .jsonl)"};
  }
  EADEM_ASSIGN_OR_RETURN(file.category, text_field(entry, "category", 64));
  if (!is_plain_name(file.category)) return Error{where + "field 'category' must be letters, digits, '.', '_' and '-'"};
  const auto level =
      entry["level"].is_string() ? parse_level(entry["level"].get<std::string>()) : Result<Level>(Error{"a text"});
  if (!level.ok() || (level.value() != Level::kBits && level.value() != Level::kTokens)) {
    return Error{where + "field 'level' must be \"bits\" or \"tokens\": one answer can be held to these"};
  }
  file.level = level.value();
  if (!frozen) return file;
  EADEM_ASSIGN_OR_RETURN(file.requests, count_field(entry, "requests", kMostCorpusRequests));
  EADEM_ASSIGN_OR_RETURN(file.bytes, count_field(entry, "bytes", kMostCorpusBytes));
  EADEM_ASSIGN_OR_RETURN(file.blake3, digest_field(entry, "blake3"));
  return file;
}

}  // namespace

bool is_day(std::string_view text) {
  if (text.size() != 10) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 4 || i == 7;
    if (dash ? text[i] != '-' : text[i] < '0' || text[i] > '9') return false;
  }
  const int month = (text[5] - '0') * 10 + (text[6] - '0'), day = (text[8] - '0') * 10 + (text[9] - '0');
  return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

bool is_plain_name(std::string_view text) {
  return !text.empty() && text.size() <= 128 && text[0] != '.' && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
           c == '-';
  });
}

std::string digest_of(const Corpus& corpus) {
  text::Blake3 hash;
  const auto add = [&](std::string_view text) {
    hash.update(std::to_string(text.size()) + ":");
    hash.update(text);
  };
  add(kCorpusFormat);
  for (const CorpusFile& file : corpus.files) {
    add(file.name);
    add(file.category);
    add(name_of(file.level));
    add(file.blake3);
  }
  return hash.hex_digest();
}

Result<Corpus> parse_manifest(std::string_view text) {
  EADEM_ASSIGN_OR_RETURN(const ordered_json object, api::parse_line(text));
  if (!object.is_object()) return Error{"must be a JSON object"};
  if (!object.contains("format") || object["format"] != kCorpusFormat) {
    return wrong("format", "\"" + std::string(kCorpusFormat) + "\": this program knows no other");
  }
  if (!object.contains("frozen")) return Error{"field 'frozen' is missing"};
  const bool frozen = !object["frozen"].is_null();
  std::set<std::string> fields = {"format", "name", "licence", "frozen", "files"};
  if (frozen) fields.insert("digest");
  EADEM_RETURN_IF_ERROR(check_fields(object, fields, ""));
  Corpus corpus;
  EADEM_ASSIGN_OR_RETURN(corpus.name, text_field(object, "name", 128));
  EADEM_ASSIGN_OR_RETURN(corpus.licence, text_field(object, "licence", 256));
  if (frozen) {
    if (!object["frozen"].is_string() || !is_day(object["frozen"].get<std::string>())) {
      return wrong("frozen", "null or a day, as \"2026-11-29\"");
    }
    corpus.frozen = object["frozen"].get<std::string>();
  }
  if (!object["files"].is_array() || object["files"].size() > kMostCorpusFiles) {
    return wrong("files", "an array of at most " + std::to_string(kMostCorpusFiles) + " objects");
  }
  std::set<std::string> names;
  for (size_t i = 0; i < object["files"].size(); ++i) {
    const std::string where = "files[" + std::to_string(i) + "]: ";
    auto file = parse_file(object["files"][i], frozen, where);
    if (!file.ok()) {
      const std::string& message = file.error().message;
      return Error{message.starts_with(where) ? message : where + message};
    }
    if (!names.insert(file.value().name).second) return Error{where + "'" + file.value().name + "' stands there twice"};
    corpus.files.push_back(std::move(file).value());
  }
  if (frozen) {
    EADEM_ASSIGN_OR_RETURN(corpus.digest, digest_field(object, "digest"));
    if (corpus.digest != digest_of(corpus)) {
      return Error{"field 'digest' is not that of the files it lists: the manifest was changed after the freeze"};
    }
  }
  return corpus;
}

std::string manifest_text(const Corpus& corpus) {
  const bool frozen = !corpus.frozen.empty();
  ordered_json object = {{"format", kCorpusFormat},
                         {"name", corpus.name},
                         {"licence", corpus.licence},
                         {"frozen", frozen ? ordered_json(corpus.frozen) : ordered_json(nullptr)}};
  if (frozen) object["digest"] = corpus.digest;
  object["files"] = ordered_json::array();
  for (const CorpusFile& file : corpus.files) {
    ordered_json entry = {{"name", file.name}, {"category", file.category}, {"level", name_of(file.level)}};
    if (frozen) {
      entry["requests"] = file.requests;
      entry["bytes"] = file.bytes;
      entry["blake3"] = file.blake3;
    }
    object["files"].push_back(std::move(entry));
  }
  return object.dump(2) + "\n";
}

}  // namespace eadem::audit
