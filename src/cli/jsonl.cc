#include "cli/jsonl.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace eadem::cli {

Result<LineReader> LineReader::open(const std::string& path) {
  if (path == "-") return LineReader(stdin);
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return Error{"cannot read " + path + ": " + std::strerror(errno)};
  LineReader reader(file);
  struct stat status = {};
  if (::fstat(::fileno(file), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return Error{"cannot read " + path + ": it is a folder"};
    if (S_ISREG(status.st_mode)) reader.size_ = static_cast<uint64_t>(status.st_size);
  }
  return reader;
}

LineReader::LineReader(LineReader&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)),
      number_(other.number_),
      bytes_(other.bytes_),
      size_(other.size_),
      ended_by_newline_(other.ended_by_newline_) {}

LineReader::~LineReader() {
  if (file_ != nullptr && file_ != stdin) std::fclose(file_);
}

bool LineReader::next(std::string& line) {
  for (;;) {
    line.clear();
    int c = 0;
    bool blank = true, any = false;
    while ((c = getc_unlocked(file_)) != EOF) {
      any = true;
      ++bytes_;
      if (c == '\n') break;
      if (line.size() < kLongest) line.push_back(static_cast<char>(c));
      blank = blank && (c == ' ' || c == '\t' || c == '\r');
    }
    if (!any) return false;
    ended_by_newline_ = c == '\n';
    ++number_;
    if (!blank) return true;
  }
}

Result<LineWriter> LineWriter::open(const std::string& path) {
  if (path == "-") return LineWriter("stdout", STDOUT_FILENO);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return Error{"cannot write " + path + ": " + std::strerror(errno)};
  LineWriter writer(path, descriptor);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Error{path + " is being written by another process; wait until it has ended"};
  }
  return writer;
}

LineWriter::LineWriter(LineWriter&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

LineWriter::~LineWriter() {
  if (descriptor_ > STDERR_FILENO) ::close(descriptor_);
}

Result<void> LineWriter::keep(uint64_t bytes) {
  if (descriptor_ == STDOUT_FILENO) return {};
  struct stat status = {};
  if (::fstat(descriptor_, &status) == 0 && !S_ISREG(status.st_mode)) return {};  // a pipe or /dev/null keeps nothing
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0 || ::lseek(descriptor_, 0, SEEK_END) < 0) {
    return Error{"cannot write " + path_ + ": " + std::strerror(errno)};
  }
  return {};
}

Result<void> LineWriter::write(const std::string& lines) {
  for (size_t at = 0; at < lines.size();) {
    const ssize_t written = ::write(descriptor_, lines.data() + at, lines.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error{"cannot write " + path_ + ": " + std::strerror(errno)};
    at += static_cast<size_t>(written);
  }
  return {};
}

}  // namespace eadem::cli
