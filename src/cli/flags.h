// The options of one command. A thin layer over CLI11, so that every fault of an option reads alike: its name, what was
// given, what it must be.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace CLI {
class App;
}

namespace eadem::cli {

class Flags {
 public:
  // Takes what was given; an error says what it must be ("an integer in 1 ... 8").
  using Parser = std::function<Result<void>(const std::string& value)>;

  explicit Flags(CLI::App* app) : app_(app) {}

  // names: "--threads" or "-m,--model"; placeholder: how the help writes the value.
  void option(const std::string& names, const std::string& placeholder, const std::string& help, Parser parser);
  // Like option; may be given several times.
  void repeated(const std::string& names, const std::string& placeholder, const std::string& help, Parser parser);
  void flag(const std::string& names, const std::string& help, std::function<void()> set);
  void positional(const std::string& name, const std::string& help, std::string* target, bool required = false);
  // All that are left, perhaps none.
  void positionals(const std::string& name, const std::string& help, std::vector<std::string>* targets);

  void text(const std::string& names, const std::string& placeholder, const std::string& help, std::string* target);
  void integer(const std::string& names, const std::string& help, int64_t least, int64_t most, int* target);
  void flag(const std::string& names, const std::string& help, bool* target);

 private:
  CLI::App* app_;
};

// "12", no spaces, no other characters; the error says what it must be.
Result<int64_t> parse_integer(std::string_view text, int64_t least, int64_t most);
// "1 2 3" or "1,2,3".
Result<std::vector<int64_t>> parse_integers(std::string_view text, int64_t least, int64_t most);

}  // namespace eadem::cli
