// How cells are carried out against an endpoint. A way runs all values of a cell and tells the trial.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "audit/black_box/site.h"
#include "audit/black_box/trial.h"

namespace eadem::audit::black_box {

struct Way {
  std::string_view name;  // as the declaration has it
  void (*run)(Site& site, const std::vector<std::string>& values, Trial& trial);
};

// With nothing else of ours under way.
void run_repeat(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_seeded_repeat(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_streamed(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_without_logprobs(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_shorter(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_several(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_token_prompt(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_scoring(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_prefix(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_afterwards(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_fingerprint(Site& site, const std::vector<std::string>& values, Trial& trial);

// In company.
void run_co_residency(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_batch_size(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_content(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_neighbour_length(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_neighbour_sampling(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_position(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_prompt_length(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_seeded_company(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_all_at_once(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_late_long_prompt(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_parting(Site& site, const std::vector<std::string>& values, Trial& trial);
void run_chat(Site& site, const std::vector<std::string>& values, Trial& trial);

inline constexpr Way kWays[] = {
    {"endpoint.repeat", run_repeat},
    {"endpoint.seeded_repeat", run_seeded_repeat},
    {"endpoint.streamed", run_streamed},
    {"endpoint.without_logprobs", run_without_logprobs},
    {"endpoint.shorter", run_shorter},
    {"endpoint.several", run_several},
    {"endpoint.token_prompt", run_token_prompt},
    {"endpoint.scoring", run_scoring},
    {"endpoint.prefix", run_prefix},
    {"endpoint.afterwards", run_afterwards},
    {"endpoint.fingerprint", run_fingerprint},
    {"endpoint.co_residency", run_co_residency},
    {"endpoint.batch_size", run_batch_size},
    {"endpoint.content", run_content},
    {"endpoint.neighbour_length", run_neighbour_length},
    {"endpoint.neighbour_sampling", run_neighbour_sampling},
    {"endpoint.position", run_position},
    {"endpoint.prompt_length", run_prompt_length},
    {"endpoint.seeded_company", run_seeded_company},
    {"endpoint.all_at_once", run_all_at_once},
    {"endpoint.late_long_prompt", run_late_long_prompt},
    {"endpoint.parting", run_parting},
    {"endpoint.chat", run_chat},
};

// A cell of this way cannot be tried from outside; its declaration says why.
inline constexpr std::string_view kUntestable = "endpoint.untestable";

const Way* way_of(std::string_view name);

}  // namespace eadem::audit::black_box
