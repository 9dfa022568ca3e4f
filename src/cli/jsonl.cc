#include "cli/jsonl.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace eadem::cli {

Result<LineReader> LineReader::open(const std::string& path) {
  if (path == "-") return LineReader(STDIN_FILENO);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return Error{"cannot read " + path + ": " + std::strerror(errno)};
  LineReader reader(descriptor);
  struct stat status = {};
  if (::fstat(descriptor, &status) == 0) {
    if (S_ISDIR(status.st_mode)) return Error{"cannot read " + path + ": it is a folder"};
    if (S_ISREG(status.st_mode)) reader.size_ = static_cast<uint64_t>(status.st_size);
  }
  return reader;
}

LineReader::LineReader(LineReader&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      buffer_(std::move(other.buffer_)),
      at_(other.at_),
      gathered_(std::move(other.gathered_)),
      whole_(other.whole_),
      over_(other.over_),
      number_(other.number_),
      gathered_number_(other.gathered_number_),
      bytes_(other.bytes_),
      gathered_bytes_(other.gathered_bytes_),
      size_(other.size_),
      ended_by_newline_(other.ended_by_newline_),
      gathered_newline_(other.gathered_newline_) {}

LineReader::~LineReader() {
  if (descriptor_ > STDERR_FILENO) ::close(descriptor_);
}

// False: there is nothing yet (without `wait`), or nothing any more (over_).
bool LineReader::refill(bool wait) {
  if (over_) return false;
  struct pollfd readable = {descriptor_, POLLIN, 0};
  if (!wait && ::poll(&readable, 1, 0) == 0) return false;
  constexpr size_t kBuffer = size_t{1} << 16;
  buffer_.resize(kBuffer);
  at_ = 0;
  ssize_t got = 0;
  do {
    got = ::read(descriptor_, buffer_.data(), kBuffer);
  } while (got < 0 && errno == EINTR);
  buffer_.resize(got > 0 ? static_cast<size_t>(got) : 0);
  over_ = got <= 0;
  return !over_;
}

// Puts the next line that is not blank together. True: it is whole. False: the end, or (without `wait`) not yet.
bool LineReader::gather(bool wait) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!whole_) {
    if (at_ == buffer_.size() && !refill(wait)) {
      if (!over_ || gathered_.empty()) return false;
      gathered_newline_ = false;
    } else {
      const char* const from = buffer_.data() + at_;
      const size_t left = buffer_.size() - at_;
      const auto* const newline = static_cast<const char*>(std::memchr(from, '\n', left));
      const size_t length = newline != nullptr ? static_cast<size_t>(newline - from) : left;
      gathered_.append(from, std::min(length, kLongest - gathered_.size()));
      at_ += length + (newline != nullptr ? 1 : 0);
      gathered_bytes_ += length + (newline != nullptr ? 1 : 0);
      if (newline == nullptr) continue;
      gathered_newline_ = true;
    }
    ++gathered_number_;
    whole_ = !std::all_of(gathered_.begin(), gathered_.end(), is_blank);
    if (!whole_) gathered_.clear();
  }
  return true;
}

bool LineReader::ready() { return gather(false) || over_; }

bool LineReader::next(std::string& line) {
  const bool found = gather(true);
  line = std::exchange(gathered_, {});
  whole_ = false;
  number_ = gathered_number_;
  bytes_ = gathered_bytes_;
  ended_by_newline_ = gathered_newline_;
  return found;
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
