// Result<T>: a value, or an Error whose message tells a user what is wrong and what to do. Used for every fault that a file, a
// request or the machine can cause; bugs are EADEM_CHECK's.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "core/check.h"

namespace eadem {

struct Error {
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}    // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    EADEM_CHECK(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    EADEM_CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    EADEM_CHECK(ok());
    return std::get<0>(std::move(state_));
  }
  const Error& error() const {
    EADEM_CHECK(!ok());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    EADEM_CHECK(!ok());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace eadem

// Leaves the calling function with the error of a failed Result.
#define EADEM_RETURN_IF_ERROR(expression)                        \
  do {                                                           \
    if (auto eadem_status = (expression); !eadem_status.ok()) {  \
      return ::eadem::Error{eadem_status.error()};               \
    }                                                            \
  } while (false)

#define EADEM_CONCAT_(a, b) a##b
#define EADEM_CONCAT(a, b) EADEM_CONCAT_(a, b)
// EADEM_ASSIGN_OR_RETURN(auto x, f()): the value of f(), or leaves with its error.
#define EADEM_ASSIGN_OR_RETURN(target, expression)                           \
  auto EADEM_CONCAT(eadem_result_, __LINE__) = (expression);                 \
  if (!EADEM_CONCAT(eadem_result_, __LINE__).ok()) {                         \
    return ::eadem::Error{EADEM_CONCAT(eadem_result_, __LINE__).error()};    \
  }                                                                          \
  target = std::move(EADEM_CONCAT(eadem_result_, __LINE__)).value()
