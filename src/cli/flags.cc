#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <charconv>

namespace eadem::cli {
namespace {

std::string first_long(const std::string& names) { return names.substr(names.rfind(',') + 1); }

CLI::callback_t take(const std::string& names, Flags::Parser parser) {
  return [name = first_long(names), parser = std::move(parser)](const CLI::results_t& values) {
    for (const std::string& value : values) {
      const auto parsed = parser(value);
      if (!parsed.ok()) {
        throw CLI::ValidationError(name, "is '" + value + "'; it must be " + parsed.error().message);
      }
    }
    return true;
  };
}

}  // namespace

void Flags::option(const std::string& names, const std::string& placeholder, const std::string& help, Parser parser) {
  app_->add_option(names, take(names, std::move(parser)), help)->type_name(placeholder);
}

void Flags::repeated(const std::string& names, const std::string& placeholder, const std::string& help, Parser parser) {
  CLI::Option* option = app_->add_option(names, take(names, std::move(parser)), help)->type_name(placeholder);
  option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(false);
}

void Flags::flag(const std::string& names, const std::string& help, std::function<void()> set) {
  app_->add_flag_callback(names, std::move(set), help);
}

void Flags::positional(const std::string& name, const std::string& help, std::string* target, bool required) {
  app_->add_option(name, *target, help)->type_name("")->required(required);
}

void Flags::positionals(const std::string& name, const std::string& help, std::vector<std::string>* targets) {
  app_->add_option(name, *targets, help)->type_name("");
}

void Flags::text(const std::string& names, const std::string& placeholder, const std::string& help,
                 std::string* target) {
  option(names, placeholder, help, [target](const std::string& value) -> Result<void> {
    if (value.empty()) return Error{"some text"};
    *target = value;
    return {};
  });
}

void Flags::integer(const std::string& names, const std::string& help, int64_t least, int64_t most, int* target) {
  option(names, "N", help, [=](const std::string& value) -> Result<void> {
    EADEM_ASSIGN_OR_RETURN(const int64_t number, parse_integer(value, least, most));
    *target = static_cast<int>(number);
    return {};
  });
}

void Flags::flag(const std::string& names, const std::string& help, bool* target) {
  flag(names, help, [target] { *target = true; });
}

Result<int64_t> parse_integer(std::string_view text, int64_t least, int64_t most) {
  int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc{} || end != text.data() + text.size() || number < least || number > most) {
    return Error{"an integer in " + std::to_string(least) + " ... " + std::to_string(most)};
  }
  return number;
}

Result<std::vector<int64_t>> parse_integers(std::string_view text, int64_t least, int64_t most) {
  std::vector<int64_t> numbers;
  constexpr std::string_view kSeparators = " ,\t";
  for (size_t at = text.find_first_not_of(kSeparators); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    const auto number = parse_integer(text.substr(at, end - at), least, most);
    if (!number.ok())
      return Error{"integers in " + std::to_string(least) + " ... " + std::to_string(most) + " with spaces or commas"};
    numbers.push_back(number.value());
    at = text.find_first_not_of(kSeparators, end);
  }
  if (numbers.empty()) return Error{"at least one integer"};
  return numbers;
}

}  // namespace eadem::cli
