#include "contract/digest_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "contract/canonical_json.h"
#include "contract/json_text.h"
#include "text/blake3.h"

namespace eadem::contract {
namespace {

using nlohmann::ordered_json;
using std::filesystem::path;

constexpr int kFormat = 1;
constexpr size_t kMostBytes = 1 << 20;  // of an entry; a larger one is not ours

int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

// Numbers of 64 bits as text: canonical JSON takes none beyond 2^53.
std::optional<ordered_json> stamp_of(const path& file, int64_t newest) {
  struct stat facts{};
  if (::stat(file.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  const int64_t changed = std::max(nanoseconds(facts.st_mtim), nanoseconds(facts.st_ctim));
  if (changed > newest) return std::nullopt;
  return ordered_json{{"path", file.string()},
                      {"size", std::to_string(facts.st_size)},
                      {"mtime_ns", std::to_string(nanoseconds(facts.st_mtim))},
                      {"ctime_ns", std::to_string(nanoseconds(facts.st_ctim))},
                      {"device", std::to_string(facts.st_dev)},
                      {"inode", std::to_string(facts.st_ino)}};
}

// Nothing where a file is missing, no plain file, or too new to be told from a later one.
std::optional<ordered_json> stamps_of(const std::vector<path>& files, int64_t newest) {
  ordered_json stamps = ordered_json::array();
  for (const path& file : files) {
    std::error_code failure;
    const path whole = std::filesystem::canonical(file, failure);
    if (failure) return std::nullopt;
    auto stamp = stamp_of(whole, newest);
    if (!stamp) return std::nullopt;
    stamps.push_back(std::move(*stamp));
  }
  return stamps;
}

bool is_digest(const ordered_json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The entry with a digest over itself, so that a damaged one shows.
std::optional<std::string> seal(const ordered_json& entry) {
  auto text = canonical_json(entry);
  if (!text.ok()) return std::nullopt;  // a path that is no UTF-8
  return canonical_digest(text.value());
}

std::optional<std::string> read(const path& file, const ordered_json& expected) {
  std::ifstream in(file, std::ios::binary);
  std::string bytes;
  for (char c; bytes.size() <= kMostBytes && in.get(c);) bytes += c;
  if (bytes.empty() || bytes.size() > kMostBytes) return std::nullopt;
  auto parsed = parse_json(bytes);
  if (!parsed.ok()) return std::nullopt;
  ordered_json entry = std::move(parsed).value();
  if (!entry.is_object() || !entry.contains("check") || !entry.contains("digest")) return std::nullopt;
  const ordered_json check = entry["check"], digest = entry["digest"];
  entry.erase("check");
  if (!is_digest(check) || !is_digest(digest) || seal(entry) != check.get<std::string>()) return std::nullopt;
  entry.erase("digest");
  if (entry != expected) return std::nullopt;
  return digest.get<std::string>();
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Under another name first: a reader sees the old entry or the new one, never half of one.
bool write(const path& file, std::string_view bytes) {
  std::error_code failure;
  std::filesystem::create_directories(file.parent_path(), failure);
  std::string name = file.string() + ".XXXXXX";
  const int descriptor = ::mkstemp(name.data());
  if (descriptor < 0) return false;
  const bool written = write_all(descriptor, bytes);
  const bool closed = ::close(descriptor) == 0;
  if (written && closed && ::rename(name.c_str(), file.c_str()) == 0) return true;
  ::unlink(name.c_str());
  return false;
}

}  // namespace

std::string DigestCache::of(std::string_view kind, const std::vector<path>& files,
                            const std::function<std::string()>& compute) {
  const auto since = options_.opened.time_since_epoch() - options_.settle;
  const int64_t newest = std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
  const auto stamps = options_.folder.empty() ? std::nullopt : stamps_of(files, newest);
  if (!stamps) {
    ++counters_.computed;
    return compute();
  }
  ordered_json entry = {{"format", kFormat}, {"kind", kind}, {"files", *stamps}};
  text::Blake3 name;
  name.update(kind);
  for (const ordered_json& stamp : *stamps) {
    name.update(std::string_view("\0", 1));
    name.update(stamp["path"].get_ref<const std::string&>());
  }
  const path file = options_.folder / (name.hex_digest() + ".json");
  if (const auto kept = options_.recheck ? std::nullopt : read(file, entry)) {
    ++counters_.hits;
    return *kept;
  }
  ++counters_.computed;
  const std::string digest = compute();
  if (stamps_of(files, newest) != stamps) return digest;  // somebody changed a file meanwhile
  entry["digest"] = digest;
  if (const auto check = seal(entry)) {
    entry["check"] = *check;
    if (write(file, entry.dump() + "\n")) ++counters_.stored;
  }
  return digest;
}

}  // namespace eadem::contract
