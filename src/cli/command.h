// The commands: each adds its options and returns what runs when it was chosen. The exit status is 0, 1 where a check
// failed, 130 after an interrupt; an Error becomes one line on stderr and exit status 2.
#pragma once

#include <functional>

#include "cli/flags.h"
#include "core/result.h"

namespace eadem::cli {

using Run = std::function<Result<int>()>;

inline constexpr int kCheckFailed = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kInterrupted = 130;

Run add_pull(Flags flags);
Run add_generate(Flags flags);
Run add_chat(Flags flags);
Run add_score(Flags flags);
Run add_replay(Flags flags);
Run add_verify(Flags flags);
Run add_keygen(Flags flags);
Run add_info(Flags flags);
Run add_bench(Flags flags);
Run add_cost(Flags flags);
Run add_diff(Flags flags);
Run add_near_tie(Flags flags);
Run add_serve(Flags flags);
Run add_corpus(Flags flags);
Run add_gate(Flags flags);
Run add_accept(Flags flags);

}  // namespace eadem::cli
