// The matrix for endpoints as it is declared (accept/endpoint/default.toml says how).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "audit/verdict.h"
#include "core/result.h"

namespace eadem::audit::black_box {

struct CellPlan {
  Cell cell;        // its values are those of the matrix that was asked for
  std::string way;  // a name of kWays, or kUntestable
  std::string why;  // of an untestable cell
};

// matrix: "quick" or "full". `where` names the text in errors: "where:line: what is wrong, and what to do".
Result<std::vector<CellPlan>> parse_declaration(std::string_view text, const std::string& where,
                                                std::string_view matrix);
// path: empty for the one in this program.
Result<std::vector<CellPlan>> read_declaration(const std::string& path, std::string_view matrix);

}  // namespace eadem::audit::black_box
