// The acceptance matrix against any OpenAI-compatible endpoint, seen from outside. What cannot be varied or seen there
// is said to be untestable; what is compared in company counts only where requests are known to have met.
#pragma once

#include <functional>
#include <string>

#include "audit/black_box/traffic.h"
#include "audit/verdict.h"
#include "core/result.h"

namespace eadem::audit::black_box {

struct BlackBoxOptions {
  EndpointOptions endpoint;
  std::string matrix = "quick";  // or "full"
  std::string declaration;       // a TOML file; empty: the one in this program
  std::string version, command;  // of this program, for the document
  std::function<bool()> stop;    // whether an interrupt came
  // Before each cell: how many are done, of how many, and the name of the next.
  std::function<void(int done, int all, const std::string& name)> progress;
};

// Errors: no such endpoint, access refused, no way to get an answer, a faulty declaration. What goes wrong later is the
// verdict of the cell where it did.
Result<MatrixResult> accept_endpoint(const BlackBoxOptions& options);

}  // namespace eadem::audit::black_box
