// The ways, for the table of ways.cc alone. What each does stands above its definition.
#pragma once

#include <string_view>

#include "core/result.h"

namespace eadem::audit::accept {

class Trial;

// ways_batch.cc
Result<void> run_at_once(Trial& trial);
bool is_order(std::string_view value);
Result<void> run_in_order(Trial& trial);
bool is_count(std::string_view value);
Result<void> run_arriving(Trial& trial);
bool is_neighbour(std::string_view value);
Result<void> run_beside(Trial& trial);

// ways_history.cc
Result<void> run_again(Trial& trial);
bool is_part(std::string_view value);
Result<void> run_after_parts(Trial& trial);
Result<void> run_after_eviction(Trial& trial);
bool is_lineage(std::string_view value);
Result<void> run_lineage(Trial& trial);
Result<void> run_after_others(Trial& trial);

// ways_request.cc
bool is_several(std::string_view value);
Result<void> run_several(Trial& trial);
bool is_company(std::string_view value);
Result<void> run_scored(Trial& trial);
bool is_share(std::string_view value);
Result<void> run_forced(Trial& trial);
bool is_logprobs(std::string_view value);
Result<void> run_logprobs(Trial& trial);
Result<void> run_stopped(Trial& trial);
bool is_pooling(std::string_view value);
Result<void> run_embedded(Trial& trial);
Result<void> run_seeds(Trial& trial);
bool is_streaming(std::string_view value);
Result<void> run_streamed(Trial& trial);

// ways_process.cc
bool is_command(std::string_view value);
Result<void> run_in_process(Trial& trial);
Result<void> run_in_service(Trial& trial);
bool is_delivery(std::string_view value);
Result<void> run_over_http(Trial& trial);
bool is_trace(std::string_view value);
Result<void> run_traced(Trial& trial);

}  // namespace eadem::audit::accept
