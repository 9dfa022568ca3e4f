// Lines in, lines out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"

namespace eadem::cli {

// Reads a file ("-": stdin) line by line.
class LineReader {
 public:
  static Result<LineReader> open(const std::string& path);
  LineReader(LineReader&& other) noexcept;
  LineReader& operator=(LineReader&&) = delete;
  ~LineReader();

  // The next line that holds more than blanks; false at the end. A line longer than kLongest keeps its beginning alone,
  // which is no JSON any more.
  bool next(std::string& line);
  // Whether next() would return at once: a whole line or the end is there. Whoever writes the lines may be waiting for
  // what the ones before bring.
  bool ready();
  int64_t line_number() const { return number_; }  // of the line that next() gave, from 1
  uint64_t bytes() const { return bytes_; }        // up to the end of that line
  uint64_t size() const { return size_; }          // of the file; 0 where it is none
  bool ended_by_newline() const { return ended_by_newline_; }

 private:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}
  bool gather(bool wait);
  bool refill(bool wait);
  static constexpr size_t kLongest = size_t{256} << 20;

  int descriptor_;
  std::vector<char> buffer_;
  size_t at_ = 0;         // of buffer_: what was not looked at yet
  std::string gathered_;  // of the line under way
  bool whole_ = false;    // it is all there
  bool over_ = false;     // nothing more can be read
  int64_t number_ = 0, gathered_number_ = 0;
  uint64_t bytes_ = 0, gathered_bytes_ = 0, size_ = 0;
  bool ended_by_newline_ = true, gathered_newline_ = true;
};

// Appends whole lines to a file ("-": stdout).
class LineWriter {
 public:
  // keep: bytes of an existing file that stay. The file is locked against a second writer.
  static Result<LineWriter> open(const std::string& path);
  LineWriter(LineWriter&& other) noexcept;
  LineWriter& operator=(LineWriter&&) = delete;
  ~LineWriter();

  Result<void> keep(uint64_t bytes);
  // In one write, so that an end in between leaves at most one torn line.
  Result<void> write(const std::string& lines);

 private:
  LineWriter(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
};

}  // namespace eadem::cli
