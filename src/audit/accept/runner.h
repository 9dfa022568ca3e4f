// Carries out a matrix in this process: every cell under every numerics asked for, each answer held against what its
// request got alone on a plain engine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "audit/accept/lab.h"
#include "audit/accept/matrix.h"
#include "audit/verdict.h"
#include "core/result.h"

namespace eadem::audit::accept {

struct Plan {
  std::string selection = "full";                // "quick" or "full": which cells and values, how much of the corpus
  std::vector<std::string> numerics = {"auto"};  // short names; "auto" is the model's own
  std::vector<std::string> cells;                // these alone, by name; empty: all
};

// Who is told how far it is.
struct Watcher {
  std::function<void(size_t done, size_t all, const std::string& numerics, const Cell& next)> on_start;
  std::function<void(const CellResult& result)> on_end;
};

// `workshop` must outlive the call. Fills in all of the result but version, command and machine. Cells that an
// interrupt left out are there as not run. Errors: the model cannot be opened under one of the numerics, a name in
// `plan` that the matrix lacks.
Result<MatrixResult> run_matrix(const Matrix& matrix, const Plan& plan, const Workshop& workshop,
                                const Watcher& watcher = {});

// One cell alone; what run_matrix does for each, but for the controls.
CellResult run_cell(const CellSpec& spec, const std::string& selection, const Limits& limits, Lab& lab);

}  // namespace eadem::audit::accept
