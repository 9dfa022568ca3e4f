// A process of the program itself.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "core/result.h"

namespace eadem::audit::accept {

// A folder that goes with what is in it.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make();
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();

  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

class Child {
 public:
  // What it prints goes to files of `folder`, which must outlive it.
  static Result<Child> start(const std::string& program, const std::vector<std::string>& arguments,
                             const ScratchFolder& folder);
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)), errors_(std::move(other.errors_)) {}
  Child& operator=(Child&&) = delete;
  // Ends it, where it still runs.
  ~Child();

  pid_t pid() const { return pid_; }
  bool running();
  // Until it ends, a condition holds, an interrupt comes, or the time is over. Errors: the last two.
  Result<void> wait(
      double seconds, const std::function<bool()>& interrupted,
      const std::function<bool()>& enough = [] { return false; });
  // Once it ended: an error where its exit status was not 0, with the last line that it wrote on stderr.
  Result<void> check() const;
  // Asks it to end, and waits.
  Result<void> end(double seconds);

 private:
  Child(pid_t pid, std::string errors) : pid_(pid), errors_(std::move(errors)) {}

  pid_t pid_;
  std::string errors_;
  bool ended_ = false;
  int status_ = 0;
};

}  // namespace eadem::audit::accept
