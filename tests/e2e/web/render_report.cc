// render_report FILE.json...: writes FILE.html beside each, as the commands of the program do with their results.
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "audit/report.h"

int main(int count, char** arguments) try {
  for (int at = 1; at < count; ++at) {
    const std::string path = arguments[at];
    std::ifstream in(path);
    const auto document = nlohmann::ordered_json::parse(in);
    std::ofstream out(path.substr(0, path.rfind('.')) + ".html", std::ios::binary);
    out << eadem::audit::report_page(document);
    if (!out.flush()) {
      throw std::runtime_error("cannot write the page of " + path);
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << "render_report: " << error.what() << "\n";
  return 2;
}
