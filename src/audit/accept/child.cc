#include "audit/accept/child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace eadem::audit::accept {
namespace {

using namespace std::chrono_literals;

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line.substr(0, 400);
  }
  return last.empty() ? "nothing on stderr" : last;
}

}  // namespace

Result<ScratchFolder> ScratchFolder::make() {
  std::error_code fault;
  std::string path = (std::filesystem::temp_directory_path(fault) / "eadem-accept-XXXXXX").string();
  if (fault || ::mkdtemp(path.data()) == nullptr)
    return Error{"no temporary folder can be made: set TMPDIR to a folder that can be written"};
  return ScratchFolder(path);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<Child> Child::start(const std::string& program, const std::vector<std::string>& arguments,
                           const ScratchFolder& folder) {
  std::vector<std::string> all = {program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& one : all) argv.push_back(one.data());
  argv.push_back(nullptr);
  const std::string errors = folder.file("stderr"), output = folder.file("stdout");
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&files, 2, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = -1;
  const int fault = ::posix_spawn(&pid, program.c_str(), &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (fault != 0) return Error{"cannot start " + program + ": " + std::strerror(fault)};
  return Child(pid, errors);
}

Child::~Child() {
  if (pid_ < 0 || !running()) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
}

bool Child::running() {
  if (ended_ || pid_ < 0) return false;
  ended_ = ::waitpid(pid_, &status_, WNOHANG) != 0;
  return !ended_;
}

Result<void> Child::wait(double seconds, const std::function<bool()>& interrupted,
                         const std::function<bool()>& enough) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (running() && !enough()) {
    if (interrupted()) return Error{"interrupted"};
    if (std::chrono::steady_clock::now() > end)
      return Error{"the process did not come to an end in time; last it said: " + last_line(errors_)};
    std::this_thread::sleep_for(10ms);
  }
  return {};
}

Result<void> Child::check() const {
  if (WIFSIGNALED(status_))
    return Error{"the process died of signal " + std::to_string(WTERMSIG(status_)) +
                 "; last it said: " + last_line(errors_)};
  if (WEXITSTATUS(status_) != 0)
    return Error{"the process ended with status " + std::to_string(WEXITSTATUS(status_)) + ": " + last_line(errors_)};
  return {};
}

Result<void> Child::end(double seconds) {
  if (running()) ::kill(pid_, SIGTERM);
  EADEM_RETURN_IF_ERROR(wait(seconds, [] { return false; }));
  return check();
}

}  // namespace eadem::audit::accept
