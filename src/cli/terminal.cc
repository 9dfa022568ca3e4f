#include "cli/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

namespace eadem::cli {
namespace {

volatile std::sig_atomic_t interrupts = 0;

void on_signal(int signal) {
  interrupts = interrupts + 1;
  std::signal(signal, SIG_DFL);
}

std::string one_line(const std::string& message) {
  std::string line;
  for (const char c : message) {
    if (c == '\n' || c == '\r' || c == '\t') {
      line += ' ';
    } else if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      line += c;
    }
  }
  return line;
}

}  // namespace

void print_error(const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "eadem: %s\n", one_line(message).c_str());
}

void print_note(const std::string& message) { std::fprintf(stderr, "%s\n", one_line(message).c_str()); }

Progress::Progress() : terminal_(::isatty(STDERR_FILENO) == 1) {}

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

void Progress::show(uint64_t done, uint64_t total, const std::string& words) {
  const auto now = Clock::now();
  if (!terminal_ || now - start_ < std::chrono::seconds(2) || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  constexpr int kWidth = 30;
  std::string bar;
  if (total > 0) {
    const double part = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const int filled = static_cast<int>(part * kWidth);
    bar = "[" + std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(kWidth - filled), ' ') +
          "] " + std::to_string(static_cast<int>(part * 100)) + " %  ";
  }
  std::fprintf(stderr, "\r\033[K%s%s", bar.c_str(), one_line(words).c_str());
  std::fflush(stderr);
}

void Progress::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

Waiting::Waiting(const std::string& words) {
  if (::isatty(STDERR_FILENO) != 1) return;
  teller_ = std::thread([this, line = one_line(words)] {
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, std::chrono::seconds(2), [this] { return over_; })) return;
    std::fprintf(stderr, "%s ...", line.c_str());
    std::fflush(stderr);
    ended_.wait(lock, [this] { return over_; });
    std::fputs("\r\033[K", stderr);
  });
}

Waiting::~Waiting() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  if (teller_.joinable()) teller_.join();
}

void catch_interrupts() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

bool interrupted() { return interrupts != 0; }

void forget_interrupt() {
  interrupts = 0;
  catch_interrupts();
}

bool stdin_is_terminal() { return ::isatty(STDIN_FILENO) == 1; }
bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }

}  // namespace eadem::cli
