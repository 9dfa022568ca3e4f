// The acceptance matrix as it is declared: one TOML file, read whole or refused (docs/acceptance.md).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "audit/accept/proof.h"
#include "audit/verdict.h"
#include "core/result.h"
#include "eadem/engine.h"

namespace eadem::audit::accept {

// How much of the corpus a run takes. Zero: all there is.
struct Limits {
  int requests = 0;       // of each category, the first of them
  int prompt_tokens = 0;  // longer prompts are cut
  int answer_tokens = 0;  // max_tokens is at most this

  // Fields of `other` that are not zero replace these.
  Limits with(const Limits& other) const;
};

// Options of the engine that a cell runs on; what is not set stays as the program was told.
struct Setting {
  std::string name;   // of a field of EngineOptions that can be set here
  std::string value;  // as text
};

struct CellSpec {
  Cell cell;                      // cell.proof holds the conditions' texts
  std::string way;                // how it is carried out (audit/accept/ways.h)
  std::string option;             // of the engine, that a value sets; empty: the way knows what a value means
  std::vector<Setting> settings;  // for every value
  std::vector<Condition> proof;
  std::vector<std::string> matrices;                       // "quick", "full": which contain it
  std::map<std::string, std::vector<std::string>> values;  // of a matrix, where they are not cell.values
  Limits limits;
  std::vector<std::string> numerics;  // short names; empty: all
  bool sensitive = false;             // the control runs it in free-order arithmetic and must see it fail
  bool sensitive_on_gpu = false;      // there as well: kernels for its rows are seen to be others

  bool in(std::string_view matrix) const;
  const std::vector<std::string>& values_of(std::string_view matrix) const;
};

struct Matrix {
  std::string name;
  std::map<std::string, Limits> limits;           // by matrix: "quick", "full"
  std::map<std::string, Limits> numerics_limits;  // by the short name of a numerics: over those
  std::vector<CellSpec> cells;

  const CellSpec* find(std::string_view name) const;
};

// `where` is what errors call the text. Errors: "where:line: cell 'name', field: what is wrong; what to do": no TOML,
// an unknown key, a field of the wrong type, a way, option, level or fact that does not exist, two cells of one name.
// A file may begin with `base = "default"`: it then holds what differs from the embedded default: limits, and fields of
// its cells by name; cells of other names are added.
Result<Matrix> parse_matrix(std::string_view text, const std::string& where);
Result<Matrix> read_matrix(const std::string& path);

// The one that belongs to a model, by the name that it was asked for under or the name of its file; else the default.
Matrix matrix_of_model(std::string_view model);

// The texts of accept/*.toml that are part of the program: file name without ending -> text.
const std::map<std::string, std::string>& embedded_matrices();

// The value of kv_blocks that leaves room for the longest request and little more.
inline constexpr std::string_view kTightPool = "tight";

// Values of isa: the kernel sets that this machine runs, with and without the reference, which is some hundred times
// slower.
inline constexpr std::string_view kAllSets = "all", kFastSets = "all but reference";

// Sets a field of EngineOptions from its text. Errors: no such option; a value that it cannot have.
Result<void> apply(const Setting& setting, EngineOptions& options);
bool is_setting(std::string_view name);

}  // namespace eadem::audit::accept
