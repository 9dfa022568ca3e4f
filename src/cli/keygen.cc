// eadem keygen: a pair of keys for receipts and other signed documents.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/batch.h"
#include "cli/command.h"
#include "contract/keys.h"

namespace eadem::cli {
namespace {

struct Options {
  std::string out;
  bool json = false;
};

Result<int> run(const Options& options) {
  if (options.out.empty()) return Error{"--out FILE is needed: where the private key goes; FILE.pub is the public one"};
  const std::string public_file = options.out + ".pub";
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(public_file, ignored))) {
    return Error{public_file + ": exists; keys are never overwritten: name another file"};
  }
  const contract::SigningKey key = contract::SigningKey::generate();
  EADEM_RETURN_IF_ERROR(key.save(options.out));
  EADEM_RETURN_IF_ERROR(key.verifying_key().save(public_file));
  if (options.json) {
    const nlohmann::ordered_json object = {
        {"key_id", key.key_id()}, {"private_key", options.out}, {"public_key", public_file}};
    std::puts(to_line(object).c_str());
  } else {
    std::printf("key id       %s\nprivate key  %s (keep it secret; nobody can make it again)\npublic key   %s\n",
                key.key_id().c_str(), options.out.c_str(), public_file.c_str());
  }
  return 0;
}

}  // namespace

Run add_keygen(Flags flags) {
  auto options = std::make_shared<Options>();
  flags.text("--out", "FILE", "a new file for the private key (mode 0600); FILE.pub gets the public one",
             &options->out);
  flags.flag("--json", "key id and files as a JSON object", &options->json);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
