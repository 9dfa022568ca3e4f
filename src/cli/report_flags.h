// What commands that judge have in common: margins, and where their report goes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/flags.h"

namespace eadem::cli {

// --json and --html FILE.
struct ReportFlags {
  bool json = false;
  std::string html;

  void add(Flags& flags);
  // Writes the page, where it is asked for, and prints the document, where --json asks for it. Errors: a file that
  // cannot be written.
  Result<void> deliver(const nlohmann::ordered_json& document) const;
};

// Adds an option that takes a number above 0 and below `most`.
void add_margin(Flags& flags, const std::string& name, const std::string& help, double most, double* target);

}  // namespace eadem::cli
