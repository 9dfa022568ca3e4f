// What goes to people: one line of error, a progress bar, an interrupt.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace eadem::cli {

// "eadem: message", in one line whatever the message holds.
void print_error(const std::string& message);
// A note on stderr, in one line.
void print_note(const std::string& message);

// A bar on stderr that shows itself after two seconds, on a terminal alone.
class Progress {
 public:
  Progress();
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // done of total (0: not known), and a few words behind the bar.
  void show(uint64_t done, uint64_t total, const std::string& words);
  void clear();
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

// While it lives: after two seconds a line on stderr says what is waited for, on a terminal alone.
class Waiting {
 public:
  explicit Waiting(const std::string& words);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread teller_;
};

// From now on an interrupt (Ctrl-C) or a request to end only sets a flag; the second one ends the program.
void catch_interrupts();
bool interrupted();
void forget_interrupt();

// Whether stdin, stdout are terminals.
bool stdin_is_terminal();
bool stdout_is_terminal();

}  // namespace eadem::cli
