#include "cli/endpoint_flags.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>

#include "cli/terminal.h"

namespace eadem::cli {
namespace {

// The environment keeps a key out of lists of processes; a file keeps it out of the environment.
Result<std::string> find_key(const std::string& file) {
  if (file.empty()) {
    const char* key = std::getenv("EADEM_API_KEY");
    return std::string(key == nullptr ? "" : key);
  }
  std::ifstream in(file);
  std::string key;
  if (!in || !std::getline(in, key)) return Error{file + ": cannot be read, or is empty; it must hold the API key"};
  while (!key.empty() && std::isspace(static_cast<unsigned char>(key.back()))) key.pop_back();
  return key.empty() ? Result<std::string>(Error{file + ": must hold the API key in its first line"}) : key;
}

}  // namespace

void EndpointFlags::add(Flags flags) {
  flags.text("--endpoint", "URL", "test this OpenAI-compatible server from outside, instead of a model in this process",
             &options.endpoint.url);
  flags.text("--endpoint-model", "NAME", "the model to ask it for (default: the first that it names)",
             &options.endpoint.model);
  flags.text("--api-key", "KEY", "of the endpoint (default: EADEM_API_KEY; others may see a command's arguments)",
             &options.endpoint.api_key);
  flags.text("--api-key-file", "FILE", "whose first line is the key", &key_file);
  flags.option("--endpoint-timeout", "SECONDS",
               "without a byte from the endpoint until it counts as hung (default 120)",
               [this](const std::string& value) -> Result<void> {
                 EADEM_ASSIGN_OR_RETURN(const int64_t seconds, parse_integer(value, 1, 86400));
                 options.endpoint.timeout_seconds = static_cast<double>(seconds);
                 return {};
               });
  flags.integer("--max-concurrent", "requests to send to the endpoint at once, at most (default 16)", 2, 256,
                &options.endpoint.max_concurrent);
}

Result<audit::MatrixResult> EndpointFlags::run(const std::string& matrix, const std::string& command) {
  if (options.endpoint.api_key.empty()) {
    EADEM_ASSIGN_OR_RETURN(options.endpoint.api_key, find_key(key_file));
  } else if (!key_file.empty()) {
    return Error{"--api-key and --api-key-file exclude each other"};
  }
  const bool named = matrix == "quick" || matrix == "full";
  options.matrix = named ? matrix : "full";
  options.declaration = named ? "" : matrix;
  options.version = EADEM_VERSION;
  options.command = command;
  catch_interrupts();
  Progress bar;
  options.stop = [] { return interrupted(); };
  options.progress = [&bar](int done, int all, const std::string& name) {
    bar.show(static_cast<uint64_t>(done), static_cast<uint64_t>(all), name);
  };
  auto result = audit::black_box::accept_endpoint(options);
  bar.clear();
  return result;
}

}  // namespace eadem::cli
