#include "weights/metadata.h"

#include <optional>

#include "weights/message.h"

namespace eadem::weights {
namespace {

template <class T>
struct Kind;
template <>
struct Kind<bool> {
  static constexpr std::string_view name = "true or false";
};
template <>
struct Kind<int64_t> {
  static constexpr std::string_view name = "an integer";
};
template <>
struct Kind<double> {
  static constexpr std::string_view name = "a number";
};
template <>
struct Kind<std::string> {
  static constexpr std::string_view name = "a string";
};
template <>
struct Kind<std::vector<bool>> {
  static constexpr std::string_view name = "an array of true and false";
};
template <>
struct Kind<std::vector<int64_t>> {
  static constexpr std::string_view name = "an array of integers";
};
template <>
struct Kind<std::vector<double>> {
  static constexpr std::string_view name = "an array of numbers";
};
template <>
struct Kind<StringList> {
  static constexpr std::string_view name = "an array of strings";
};

std::string_view kind_of(const Metadata::Value& value) {
  if (std::holds_alternative<uint64_t>(value)) return "an integer beyond 63 bits";
  return std::visit(
      []<class T>(const T&) -> std::string_view {
        if constexpr (std::is_same_v<T, uint64_t>) {
          return "";
        } else {
          return Kind<T>::name;
        }
      },
      value);
}

bool is_empty_array(const Metadata::Value& value) {
  return std::visit(
      []<class T>(const T& v) {
        if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
          return false;
        } else {
          return v.empty();
        }
      },
      value);
}

std::optional<double> number(const Metadata::Value& value) {
  if (const auto* d = std::get_if<double>(&value)) return *d;
  if (const auto* i = std::get_if<int64_t>(&value)) return static_cast<double>(*i);
  if (const auto* u = std::get_if<uint64_t>(&value)) return static_cast<double>(*u);
  return std::nullopt;
}

// The value as T where it is one, or becomes one without loss of meaning.
template <class T>
std::optional<T> convert(const Metadata::Value& value) {
  if (const T* exact = std::get_if<T>(&value)) return *exact;
  if constexpr (std::is_same_v<T, double>) return number(value);
  if constexpr (!std::is_arithmetic_v<T> && !std::is_same_v<T, std::string>) {
    if (is_empty_array(value)) return T{};
  }
  if constexpr (std::is_same_v<T, std::vector<bool>>) {
    if (const auto* b = std::get_if<bool>(&value)) return T{*b};
  }
  if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
    if (const auto* i = std::get_if<int64_t>(&value)) return T{*i};
  }
  if constexpr (std::is_same_v<T, std::vector<double>>) {
    if (const auto scalar = number(value)) return T{*scalar};
    if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) return T(integers->begin(), integers->end());
  }
  if constexpr (std::is_same_v<T, StringList>) {
    if (const auto* text = std::get_if<std::string>(&value)) {
      StringList list;
      list.push_back(*text);
      return list;
    }
  }
  return std::nullopt;
}

}  // namespace

bool Metadata::has_group(std::string_view group) const {
  const std::string prefix = std::string(group) + ".";
  const auto at = values_.lower_bound(prefix);
  return at != values_.end() && at->first.starts_with(prefix);
}

template <class T>
Result<T> Metadata::get(std::string_view key) const {
  const auto at = values_.find(key);
  if (at == values_.end()) {
    return Error{file_ + ": " + quote(key) +
                 " is missing; the model cannot be read without it: fetch or convert it again"};
  }
  if (auto value = convert<T>(at->second)) return *std::move(value);
  return Error{file_ + ": " + quote(key) + " must be " + std::string(Kind<T>::name) + ", not " +
               std::string(kind_of(at->second))};
}

template Result<bool> Metadata::get(std::string_view) const;
template Result<int64_t> Metadata::get(std::string_view) const;
template Result<double> Metadata::get(std::string_view) const;
template Result<std::string> Metadata::get(std::string_view) const;
template Result<std::vector<bool>> Metadata::get(std::string_view) const;
template Result<std::vector<int64_t>> Metadata::get(std::string_view) const;
template Result<std::vector<double>> Metadata::get(std::string_view) const;
template Result<StringList> Metadata::get(std::string_view) const;

const StringList* Metadata::strings(std::string_view key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : std::get_if<StringList>(&at->second);
}

}  // namespace eadem::weights
