#include "fetch/pull.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/terminal.h"

namespace eadem::cli {
namespace {

struct Options {
  std::string name;
  bool json = false;
};

std::string megabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

Result<int> run(const Options& options) {
  catch_interrupts();
  Progress bar;
  const auto show = [&](const fetch::Progress& at) {
    const std::string amount = megabytes(at.done) + (at.total > 0 ? " of " + megabytes(at.total) : "");
    bar.show(at.done, at.total, std::string(at.stage) + " " + std::string(at.file) + " " + amount);
    return !interrupted();
  };
  const auto path = fetch::pull(options.name, {}, show);
  bar.clear();
  if (!path.ok() && interrupted()) {
    print_error("interrupted; the same command goes on from here");
    return kInterrupted;
  }
  if (!path.ok()) return Error{path.error()};
  const std::string text = path.value().string();
  std::puts(options.json ? nlohmann::ordered_json{{"name", options.name}, {"path", text}}.dump().c_str()
                         : text.c_str());
  return 0;
}

}  // namespace

Run add_pull(Flags flags) {
  auto options = std::make_shared<Options>();
  flags.positional("NAME", "smollm2-135m, or a Hugging Face repository: org/name[@revision] or org/name/FILE.gguf",
                   &options->name, true);
  flags.flag("--json", "the result as a JSON object", &options->json);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
