// Result<T>: a value, or an Error whose message tells a user what is wrong and what to do. Used for every fault that a
// file, a request or the machine can cause.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace eadem {

struct Error {
  std::string message;
};

namespace detail {

// Reading what a Result does not hold is a bug of the caller.
inline void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace detail

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    detail::require(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    detail::require(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    detail::require(ok());
    return std::get<0>(std::move(state_));
  }
  const Error& error() const {
    detail::require(!ok());
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
    detail::require(!ok());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace eadem
