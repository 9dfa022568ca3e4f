// Result<T> (include/eadem/expected.h) and the macros that pass errors on. Faults of files, requests and machines are
// Results; bugs are EADEM_CHECK's.
#pragma once

#include "core/check.h"
#include "eadem/expected.h"

// Leaves the calling function with the error of a failed Result.
#define EADEM_RETURN_IF_ERROR(expression)                       \
  do {                                                          \
    if (auto eadem_status = (expression); !eadem_status.ok()) { \
      return ::eadem::Error{eadem_status.error()};              \
    }                                                           \
  } while (false)

#define EADEM_CONCAT_(a, b) a##b
#define EADEM_CONCAT(a, b) EADEM_CONCAT_(a, b)
// EADEM_ASSIGN_OR_RETURN(auto x, f()): the value of f(), or leaves with its error.
#define EADEM_ASSIGN_OR_RETURN(target, expression)                        \
  auto EADEM_CONCAT(eadem_result_, __LINE__) = (expression);              \
  if (!EADEM_CONCAT(eadem_result_, __LINE__).ok()) {                      \
    return ::eadem::Error{EADEM_CONCAT(eadem_result_, __LINE__).error()}; \
  }                                                                       \
  target = std::move(EADEM_CONCAT(eadem_result_, __LINE__)).value()
