#include "audit/black_box/declaration.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <sstream>
#include <toml++/toml.h>

#include "audit/black_box/ways.h"
#include "core/embedded_file.h"

namespace eadem::audit::black_box {

std::span<const EmbeddedFile> endpoint_matrix_files();  // made by eadem_embed

namespace {

constexpr const char* kFields[] = {"name",         "invariant", "variable", "way", "values",
                                   "quick_values", "in",        "required", "why"};

struct Place {
  std::string where;
  Error error(const toml::node& node, const std::string& message) const {
    return Error{where + ":" + std::to_string(node.source().begin.line) + ": " + message};
  }
};

Result<std::string> text_of(const Place& place, const toml::table& cell, const char* field, bool needed) {
  const toml::node* node = cell.get(field);
  if (node == nullptr)
    return needed ? Result<std::string>(place.error(cell, std::string("a cell needs `") + field + "`")) : std::string();
  if (!node->is_string() || node->as_string()->get().empty())
    return place.error(*node, std::string("`") + field + "` must be a text");
  return node->as_string()->get();
}

Result<std::vector<std::string>> list_of(const Place& place, const toml::table& cell, const char* field) {
  std::vector<std::string> list;
  const toml::node* node = cell.get(field);
  if (node == nullptr) return list;
  const Error wrong = place.error(*node, std::string("`") + field + "` must be a list of texts or integers");
  if (!node->is_array()) return wrong;
  for (const toml::node& one : *node->as_array()) {
    if (one.is_string()) {
      list.push_back(one.as_string()->get());
    } else if (one.is_integer()) {
      list.push_back(std::to_string(one.as_integer()->get()));
    } else {
      return wrong;
    }
  }
  return list;
}

Result<void> check_way(const Place& place, const toml::table& table, const CellPlan& plan) {
  if (plan.way == kUntestable) {
    return plan.why.empty() ? Result<void>(place.error(table, "an untestable cell needs `why`")) : Result<void>();
  }
  if (way_of(plan.way) != nullptr) return {};
  std::string known(kUntestable);
  for (const Way& way : kWays) known += ", " + std::string(way.name);
  return place.error(table, "there is no way '" + plan.way + "'; there are " + known);
}

Result<CellPlan> cell_of(const Place& place, const toml::table& table, std::string_view matrix, bool& wanted) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (std::find(std::begin(kFields), std::end(kFields), name) == std::end(kFields))
      return place.error(node, "a cell has no field `" + name + "`");
  }
  CellPlan plan;
  EADEM_ASSIGN_OR_RETURN(plan.cell.name, text_of(place, table, "name", true));
  EADEM_ASSIGN_OR_RETURN(plan.cell.invariant, text_of(place, table, "invariant", true));
  EADEM_ASSIGN_OR_RETURN(plan.cell.variable, text_of(place, table, "variable", true));
  EADEM_ASSIGN_OR_RETURN(plan.way, text_of(place, table, "way", true));
  EADEM_ASSIGN_OR_RETURN(plan.why, text_of(place, table, "why", false));
  EADEM_RETURN_IF_ERROR(check_way(place, table, plan));
  EADEM_ASSIGN_OR_RETURN(plan.cell.values, list_of(place, table, "values"));
  EADEM_ASSIGN_OR_RETURN(const auto quick, list_of(place, table, "quick_values"));
  if (plan.cell.values.empty()) return place.error(table, "a cell needs `values`");
  if (matrix == "quick" && !quick.empty()) plan.cell.values = quick;
  EADEM_ASSIGN_OR_RETURN(const auto in, list_of(place, table, "in"));
  wanted = in.empty() || std::find(in.begin(), in.end(), matrix) != in.end();
  if (const toml::node* required = table.get("required")) {
    if (!required->is_boolean()) return place.error(*required, "`required` must be true or false");
    plan.cell.required = required->as_boolean()->get();
  }
  return plan;
}

}  // namespace

Result<std::vector<CellPlan>> parse_declaration(std::string_view text, const std::string& where,
                                                std::string_view matrix) try {
  const Place place{where};
  const toml::table all = toml::parse(text);
  const toml::node* cells = all.get("cell");
  if (all.size() != 1 || cells == nullptr || !cells->is_array_of_tables())
    return Error{where + ": must hold [[cell]] tables, and nothing else"};
  std::vector<CellPlan> plans;
  std::set<std::string> names;
  for (const toml::node& node : *cells->as_array()) {
    bool wanted = true;
    EADEM_ASSIGN_OR_RETURN(CellPlan plan, cell_of(place, *node.as_table(), matrix, wanted));
    if (!names.insert(plan.cell.name).second)
      return place.error(node, "there are two cells of the name '" + plan.cell.name + "'");
    if (wanted) plans.push_back(std::move(plan));
  }
  return plans;
} catch (const toml::parse_error& error) {
  return Error{where + ":" + std::to_string(error.source().begin.line) + ": " + std::string(error.description())};
}

Result<std::vector<CellPlan>> read_declaration(const std::string& path, std::string_view matrix) {
  if (path.empty()) {
    const std::span<const EmbeddedFile> files = endpoint_matrix_files();
    return parse_declaration(files.front().bytes, "accept/endpoint/" + std::string(files.front().name), matrix);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{path + ": cannot be read"};
  std::stringstream text;
  text << file.rdbuf();
  return parse_declaration(text.str(), path, matrix);
}

}  // namespace eadem::audit::black_box
