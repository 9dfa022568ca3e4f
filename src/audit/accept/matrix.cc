#include "audit/accept/matrix.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <toml++/toml.h>

#include "audit/accept/ways.h"
#include "audit/difference.h"
#include "core/embedded_file.h"

namespace eadem::audit::accept {

std::span<const EmbeddedFile> matrix_files();  // accept/*.toml

namespace {

constexpr std::string_view kMatrices[] = {"quick", "full"};
constexpr std::string_view kNumerics[] = {"mma16", "fma32", "int8"};
constexpr size_t kMostBytes = size_t{4} << 20;

std::string join(const auto& names) {
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

bool contains(const auto& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// One table of the file: fields are taken one by one, and what was not taken is unknown.
class Fields {
 public:
  // place: "cell 'threads'" in errors; empty at the top.
  Fields(const toml::table& table, std::string where, std::string place)
      : table_(table), where_(std::move(where)), place_(std::move(place)) {}

  Error error(std::string_view field, const std::string& message) const {
    const toml::node* node = table_.get(field);
    const auto line = node != nullptr ? node->source().begin.line : table_.source().begin.line;
    std::string text = where_ + ":" + std::to_string(line) + ": " + place_;
    if (!field.empty()) text += (place_.empty() ? "" : ", ") + std::string(field);
    return Error{text + ": " + message};
  }

  const toml::node* take(std::string_view field) {
    taken_.insert(std::string(field));
    return table_.get(field);
  }

  Result<void> text(std::string_view field, std::string& target) {
    const toml::node* node = take(field);
    if (node == nullptr) return {};
    if (!node->is_string()) return error(field, "must be a text in quotes");
    target = node->as_string()->get();
    return target.empty() ? Result<void>(error(field, "must not be empty")) : Result<void>();
  }

  Result<void> flag(std::string_view field, bool& target) {
    const toml::node* node = take(field);
    if (node == nullptr) return {};
    if (!node->is_boolean()) return error(field, "must be true or false");
    target = node->as_boolean()->get();
    return {};
  }

  Result<void> integer(std::string_view field, int& target) {
    const toml::node* node = take(field);
    if (node == nullptr) return {};
    if (!node->is_integer() || node->as_integer()->get() < 1 || node->as_integer()->get() > (1 << 20))
      return error(field, "must be an integer in 1 ... 1048576");
    target = static_cast<int>(node->as_integer()->get());
    return {};
  }

  // A text, an integer or a truth value, as text.
  Result<std::string> scalar(std::string_view field, const toml::node& node) const {
    if (node.is_string()) return node.as_string()->get();
    if (node.is_integer()) return std::to_string(node.as_integer()->get());
    if (node.is_boolean()) return std::string(node.as_boolean()->get() ? "true" : "false");
    return error(field, "holds something that is no text, integer, true or false");
  }

  Result<void> list(std::string_view field, std::vector<std::string>& target) {
    const toml::node* node = take(field);
    if (node == nullptr) return {};
    if (!node->is_array() || node->as_array()->empty()) return error(field, "must be an array that is not empty");
    target.clear();
    for (const toml::node& entry : *node->as_array()) {
      EADEM_ASSIGN_OR_RETURN(std::string value, scalar(field, entry));
      if (contains(target, value)) return error(field, "holds '" + value + "' twice");
      target.push_back(std::move(value));
    }
    return {};
  }

  Result<const toml::table*> inner(std::string_view field) {
    const toml::node* node = take(field);
    if (node == nullptr) return static_cast<const toml::table*>(nullptr);
    if (!node->is_table()) return error(field, "must be a table");
    return node->as_table();
  }

  // After the last take().
  Result<void> end() const {
    for (const auto& [key, _] : table_) {
      if (taken_.contains(std::string(key.str()))) continue;
      return error(key.str(), "is unknown; known are " + join(taken_));
    }
    return {};
  }

 private:
  const toml::table& table_;
  std::string where_, place_;
  std::set<std::string> taken_;
};

Result<void> read_limits(const toml::table& table, const std::string& where, const std::string& place, Limits& limits) {
  Fields fields(table, where, place);
  EADEM_RETURN_IF_ERROR(fields.integer("requests", limits.requests));
  EADEM_RETURN_IF_ERROR(fields.integer("prompt_tokens", limits.prompt_tokens));
  EADEM_RETURN_IF_ERROR(fields.integer("answer_tokens", limits.answer_tokens));
  return fields.end();
}

// A table of limits by name: [limits.quick], [numerics.mma16].
Result<void> read_named_limits(Fields& top, std::string_view field, const auto& names, const std::string& where,
                               std::map<std::string, Limits>& limits) {
  EADEM_ASSIGN_OR_RETURN(const toml::table* table, top.inner(field));
  if (table == nullptr) return {};
  Fields fields(*table, where, std::string(field));
  for (const std::string_view name : names) {
    EADEM_ASSIGN_OR_RETURN(const toml::table* one, fields.inner(name));
    if (one != nullptr)
      EADEM_RETURN_IF_ERROR(
          read_limits(*one, where, std::string(field) + "." + std::string(name), limits[std::string(name)]));
  }
  return fields.end();
}

Result<void> read_settings(Fields& fields, CellSpec& spec) {
  EADEM_ASSIGN_OR_RETURN(const toml::table* table, fields.inner("with"));
  if (table == nullptr) return {};
  spec.settings.clear();
  for (const auto& [key, node] : *table) {
    EADEM_ASSIGN_OR_RETURN(std::string value, fields.scalar("with", node));
    Setting setting{std::string(key.str()), std::move(value)};
    EngineOptions scratch;
    if (const auto status = apply(setting, scratch); !status.ok()) return fields.error("with", status.error().message);
    spec.settings.push_back(std::move(setting));
  }
  return {};
}

Result<void> check_values(const Fields& fields, std::string_view field, const CellSpec& spec,
                          const std::vector<std::string>& values) {
  const Way* way = find_way(spec.way);
  for (const std::string& value : values) {
    if (!spec.option.empty()) {
      EngineOptions scratch;
      const bool is_word = spec.option == "isa" && (value == kAllSets || value == kFastSets);
      const auto status = apply({spec.option, value}, scratch);
      if (!is_word && !status.ok()) return fields.error(field, status.error().message);
    } else if (!way->is_value(value)) {
      return fields.error(field, "'" + value + "' is no value of the way '" + spec.way + "': use " + way->values);
    }
  }
  return {};
}

Result<void> check_name(const Fields& fields, const std::string& name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  if (!name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), good)) return {};
  return fields.error("name", "is '" + name + "'; it must be 1 to 64 of a-z, 0-9, '.', '_' and '-'");
}

// What a whole cell must have, wherever its fields came from.
Result<void> check_cell(const Fields& fields, CellSpec& spec) {
  for (const auto& [field, text] : {std::pair{"invariant", &spec.cell.invariant}, {"way", &spec.way}}) {
    if (text->empty())
      return fields.error(field, "is missing: every cell needs name, invariant, way, values and proof");
  }
  const Way* way = find_way(spec.way);
  if (way == nullptr) {
    std::string known;
    for (const Way& one : all_ways()) known += (known.empty() ? "" : ", ") + std::string(one.name);
    return fields.error("way", "'" + spec.way + "' is no way to carry out a cell: use one of " + known);
  }
  if (!spec.option.empty() && !is_setting(spec.option)) {
    EngineOptions scratch;
    return fields.error("option", apply({spec.option, ""}, scratch).error().message);
  }
  if (spec.option.empty() && *way->values == '\0')
    return fields.error("option", "is missing: the way '" + spec.way + "' needs the option that its values set");
  if (!spec.option.empty() && *way->values != '\0')
    return fields.error("option", "does not go with the way '" + spec.way + "', whose values are " + way->values);
  if (spec.cell.values.empty()) return fields.error("values", "is missing: what is varied needs at least one value");
  EADEM_RETURN_IF_ERROR(check_values(fields, "values", spec, spec.cell.values));
  for (const auto& [matrix, values] : spec.values)
    EADEM_RETURN_IF_ERROR(check_values(fields, matrix + "_values", spec, values));
  if (spec.proof.empty()) return fields.error("proof", "is missing: a cell that proves no path proves nothing");
  if (spec.cell.variable.empty()) spec.cell.variable = spec.option.empty() ? spec.way : spec.option;
  spec.cell.control = spec.way == kFreeControl || spec.way == kNumericsControl;
  if (spec.sensitive && spec.cell.control) return fields.error("sensitive", "does not go with a control");
  return {};
}

// true, or "cpu": in free order a GPU may give the rows of this cell the bits of one row.
Result<void> read_sensitive(Fields& fields, CellSpec& spec) {
  const toml::node* node = fields.take("sensitive");
  if (node == nullptr) return {};
  spec.sensitive_on_gpu = node->is_boolean() && node->as_boolean()->get();
  spec.sensitive = spec.sensitive_on_gpu || (node->is_string() && node->as_string()->get() == "cpu");
  if (node->is_boolean() || spec.sensitive) return {};
  return fields.error("sensitive", "must be true, false or \"cpu\"");
}

Result<void> read_lists(Fields& fields, CellSpec& spec) {
  EADEM_RETURN_IF_ERROR(fields.list("values", spec.cell.values));
  for (const std::string_view matrix : kMatrices) {
    std::vector<std::string> values;
    EADEM_RETURN_IF_ERROR(fields.list(std::string(matrix) + "_values", values));
    if (!values.empty()) spec.values[std::string(matrix)] = std::move(values);
  }
  EADEM_RETURN_IF_ERROR(fields.list("corpus", spec.cell.categories));
  EADEM_RETURN_IF_ERROR(fields.list("in", spec.matrices));
  for (const std::string& name : spec.matrices) {
    if (!contains(kMatrices, name)) return fields.error("in", "'" + name + "' is no matrix: use " + join(kMatrices));
  }
  EADEM_RETURN_IF_ERROR(fields.list("numerics", spec.numerics));
  for (const std::string& name : spec.numerics) {
    if (!contains(kNumerics, name))
      return fields.error("numerics", "'" + name + "' is no numerics: use " + join(kNumerics));
  }
  EADEM_RETURN_IF_ERROR(fields.list("proof", spec.cell.proof));
  spec.proof.clear();
  for (const std::string& text : spec.cell.proof) {
    auto condition = Condition::parse(text);
    if (!condition.ok()) return fields.error("proof", condition.error().message);
    spec.proof.push_back(std::move(condition).value());
  }
  return {};
}

Result<void> read_cell(const toml::table& table, const std::string& where, CellSpec& spec) {
  Fields fields(table, where, "cell '" + spec.cell.name + "'");
  std::string name;
  EADEM_RETURN_IF_ERROR(fields.text("name", name));
  EADEM_RETURN_IF_ERROR(check_name(fields, name));
  EADEM_RETURN_IF_ERROR(fields.text("invariant", spec.cell.invariant));
  EADEM_RETURN_IF_ERROR(fields.text("way", spec.way));
  EADEM_RETURN_IF_ERROR(fields.text("option", spec.option));
  EADEM_RETURN_IF_ERROR(fields.text("variable", spec.cell.variable));
  EADEM_RETURN_IF_ERROR(fields.text("level", spec.cell.level));
  const auto level = parse_level(spec.cell.level);
  if (!level.ok()) return fields.error("level", level.error().message);
  if (level.value() != Level::kBits && level.value() != Level::kTokens)
    return fields.error("level",
                        "of a cell is bits or tokens: single answers cannot be held to '" + spec.cell.level + "'");
  EADEM_RETURN_IF_ERROR(read_settings(fields, spec));
  EADEM_RETURN_IF_ERROR(read_lists(fields, spec));
  EADEM_RETURN_IF_ERROR(read_sensitive(fields, spec));
  EADEM_ASSIGN_OR_RETURN(const toml::table* limits, fields.inner("limits"));
  if (limits != nullptr)
    EADEM_RETURN_IF_ERROR(read_limits(*limits, where, "cell '" + spec.cell.name + "', limits", spec.limits));
  EADEM_RETURN_IF_ERROR(fields.end());
  return check_cell(fields, spec);
}

// A control re-runs cells of its own matrix: its values are their names.
Result<void> check_control(const Matrix& matrix, const std::string& where) {
  for (const CellSpec& spec : matrix.cells) {
    if (spec.way != kFreeControl) continue;
    for (const std::string& name : spec.cell.values) {
      const CellSpec* cell = matrix.find(name);
      if (cell != nullptr && cell->sensitive) continue;
      return Error{where + ": cell '" + spec.cell.name + "', values: '" + name + "' is " +
                   (cell == nullptr ? "no cell of this matrix" : "a cell without `sensitive`") +
                   ": name cells that free-order arithmetic must be seen to break"};
    }
  }
  return {};
}

Result<void> read_cells(Fields& top, const std::string& where, Matrix& matrix) {
  const toml::node* node = top.take("cell");
  if (node == nullptr) return {};
  if (!node->is_array_of_tables()) return top.error("cell", "must be written as [[cell]]");
  std::set<std::string> seen;
  for (const toml::node& entry : *node->as_array()) {
    const toml::table& table = *entry.as_table();
    const toml::node* name = table.get("name");
    const std::string text = name != nullptr && name->is_string() ? name->as_string()->get() : "";
    if (!text.empty() && !seen.insert(text).second)
      return Fields(table, where, "cell '" + text + "'").error("name", "stands there twice: names are unique");
    auto found =
        std::find_if(matrix.cells.begin(), matrix.cells.end(), [&](const auto& c) { return c.cell.name == text; });
    if (found == matrix.cells.end()) {
      matrix.cells.emplace_back();
      found = std::prev(matrix.cells.end());
      found->cell.name = text;
      found->matrices = {"full"};
    }
    EADEM_RETURN_IF_ERROR(read_cell(table, where, *found));
  }
  return {};
}

Result<Matrix> read_table(const toml::table& table, const std::string& where) {
  Fields top(table, where, "");
  std::string base;
  EADEM_RETURN_IF_ERROR(top.text("base", base));
  Matrix matrix;
  if (!base.empty()) {
    const auto found = embedded_matrices().find(base);
    if (found == embedded_matrices().end())
      return top.error("base", "'" + base + "' is not in this program; leave it out or use \"default\"");
    EADEM_ASSIGN_OR_RETURN(matrix, parse_matrix(found->second, base + ".toml"));
  }
  EADEM_RETURN_IF_ERROR(read_named_limits(top, "limits", kMatrices, where, matrix.limits));
  EADEM_RETURN_IF_ERROR(read_named_limits(top, "numerics", kNumerics, where, matrix.numerics_limits));
  EADEM_RETURN_IF_ERROR(read_cells(top, where, matrix));
  EADEM_RETURN_IF_ERROR(top.end());
  if (matrix.cells.empty()) return Error{where + ": holds no cell: write [[cell]] tables, or base = \"default\""};
  EADEM_RETURN_IF_ERROR(check_control(matrix, where));
  return matrix;
}

}  // namespace

Limits Limits::with(const Limits& other) const {
  Limits result = *this;
  if (other.requests > 0) result.requests = other.requests;
  if (other.prompt_tokens > 0) result.prompt_tokens = other.prompt_tokens;
  if (other.answer_tokens > 0) result.answer_tokens = other.answer_tokens;
  return result;
}

bool CellSpec::in(std::string_view matrix) const { return contains(matrices, matrix); }

const std::vector<std::string>& CellSpec::values_of(std::string_view matrix) const {
  const auto found = values.find(std::string(matrix));
  return found == values.end() ? cell.values : found->second;
}

const CellSpec* Matrix::find(std::string_view wanted) const {
  const auto found = std::find_if(cells.begin(), cells.end(), [&](const auto& c) { return c.cell.name == wanted; });
  return found == cells.end() ? nullptr : &*found;
}

Result<Matrix> parse_matrix(std::string_view text, const std::string& where) try {
  if (text.size() > kMostBytes) return Error{where + ": is larger than 4 MiB: that is no matrix"};
  const toml::table table = toml::parse(text, where);
  EADEM_ASSIGN_OR_RETURN(Matrix matrix, read_table(table, where));
  matrix.name = std::filesystem::path(where).stem().string();
  return matrix;
} catch (const toml::parse_error& fault) {
  return Error{where + ":" + std::to_string(fault.source().begin.line) +
               ": no TOML: " + std::string(fault.description())};
}

Result<Matrix> read_matrix(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (!file && !file.eof()) || file.gcount() == 0)
    return Error{"--matrix " + path + ": cannot be read: use quick, full or a TOML file"};
  text.resize(static_cast<size_t>(file.gcount()));
  return parse_matrix(text, path);
}

const std::map<std::string, std::string>& embedded_matrices() {
  static const std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> texts;
    for (const EmbeddedFile& file : matrix_files())
      texts.emplace(std::filesystem::path(file.name).stem().string(), file.bytes);
    return texts;
  }();
  return all;
}

Matrix matrix_of_model(std::string_view model) {
  const std::string name = std::filesystem::path(model).filename().string();
  auto found = embedded_matrices().find(name);
  if (found == embedded_matrices().end()) found = embedded_matrices().find(std::filesystem::path(name).stem().string());
  if (found == embedded_matrices().end()) found = embedded_matrices().find("default");
  auto matrix = parse_matrix(found->second, found->first + ".toml");
  EADEM_CHECK(matrix.ok());  // a test reads them all
  return std::move(matrix).value();
}

}  // namespace eadem::audit::accept
