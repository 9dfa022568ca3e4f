// The options of a matrix against a running endpoint, and its run.
#pragma once

#include <string>

#include "audit/black_box/black_box.h"
#include "audit/verdict.h"
#include "cli/flags.h"
#include "core/result.h"

namespace eadem::cli {

struct EndpointFlags {
  audit::black_box::BlackBoxOptions options;
  std::string key_file;

  void add(Flags flags);
  // Whether an endpoint was named: then the matrix is run against it, and no model is opened.
  bool given() const { return !options.endpoint.url.empty(); }
  // matrix: "quick", "full" or the path of a TOML file (all of whose values are used). With a progress bar on a
  // terminal; an interrupt ends it with what there is.
  Result<audit::MatrixResult> run(const std::string& matrix, const std::string& command);
};

}  // namespace eadem::cli
