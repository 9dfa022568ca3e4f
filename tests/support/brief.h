// Tests that compute much do it in full on the machine that builds. Under the emulator they take a chosen part, and all
// of it with `./dev test --long`: tests/run_all.py sets the variable for the one and not for the other.
#pragma once

#include <cstdlib>

namespace eadem::testing {

inline bool brief() { return std::getenv("EADEM_BRIEF") != nullptr; }

}  // namespace eadem::testing
