// Digests of large files, kept from one run to the next. A digest is only ever a function of bytes; what is kept is
// believed while the files that it was taken of are, as far as the system tells, the same ones, untouched.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace eadem::contract {

class DigestCache {
 public:
  struct Options {
    std::filesystem::path folder;  // empty: nothing is kept
    bool recheck = false;          // compute everything anew, and keep that
    // Files that changed less than this before `opened` are computed anew each time: a clock that ticks in steps could
    // not tell a later change, nor a file put in the place of the one that is mapped.
    std::chrono::nanoseconds settle = std::chrono::seconds(2);
    std::chrono::system_clock::time_point opened = std::chrono::system_clock::now();  // before the files were
  };

  // For tests, and to tell a user where time went.
  struct Counters {
    int hits = 0, computed = 0, stored = 0;
  };

  DigestCache() = default;
  explicit DigestCache(Options options) : options_(std::move(options)) {}

  // The digest (64 hexadecimal digits) of what `kind` says of these files. It is the kept one where each file has the
  // path, size, times of change (to the nanosecond), device and inode that it had then; else compute()'s, which is
  // kept. An entry that is damaged, or that cannot be written, is as good as none.
  std::string of(std::string_view kind, const std::vector<std::filesystem::path>& files,
                 const std::function<std::string()>& compute);

  const Counters& counters() const { return counters_; }

 private:
  Options options_;
  Counters counters_;
};

}  // namespace eadem::contract
