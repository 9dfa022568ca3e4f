#include "cli/report_flags.h"

#include <charconv>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "audit/report.h"
#include "cli/batch.h"

namespace eadem::cli {

void ReportFlags::add(Flags& flags) {
  flags.flag("--json", "as a JSON object", &json);
  flags.text("--html", "FILE", "write the report as one page for a browser", &html);
}

Result<void> ReportFlags::deliver(const nlohmann::ordered_json& document) const {
  if (!html.empty()) {
    std::ofstream file(html, std::ios::trunc);
    file << audit::report_page(document);
    file.flush();
    if (!file) return Error{"cannot write " + html + ": check the path, its permissions and the disk"};
  }
  if (json) std::puts(to_line(document).c_str());
  return {};
}

void add_margin(Flags& flags, const std::string& name, const std::string& help, double most, double* target) {
  flags.option(name, "X", help, [target, most](const std::string& text) -> Result<void> {
    double value = 0.0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault != std::errc() || end != text.data() + text.size() || !(value > 0.0) || !(value < most)) {
      char wanted[64];
      std::snprintf(wanted, sizeof(wanted), "a number above 0 and below %g", most);
      return Error{wanted};
    }
    *target = value;
    return {};
  });
}

}  // namespace eadem::cli
