#include "audit/accept/ways.h"

#include "audit/accept/ways_of.h"

namespace eadem::audit::accept {
namespace {

bool any(std::string_view value) { return !value.empty(); }

// Controls are carried out by the runner, which has other labs to compare with.
Result<void> by_runner(Trial&) { return Error{"a control inside of another one"}; }

}  // namespace

const std::vector<Way>& all_ways() {
  static const std::vector<Way> ways = {
      {"at_once", "all requests at once, under the option's value", "", any, run_at_once},
      {"in_order", "all at once, in another order than the corpus has", "reversed, rotated, odd first or longest first",
       is_order, run_in_order},
      {"arriving", "one request more every so many steps", "an integer in 0 ... 999", is_count, run_arriving},
      {"beside", "a neighbour between any two requests",
       "the same prompt, noise, one token, long, greedy, hot, penalised, biased, scored, embedded, cancelled, out of "
       "time, preferred, put last or with a guide",
       is_neighbour, run_beside},
      {"again", "all at once, several times; the last time counts", "an integer in 0 ... 999", is_count, run_again},
      {"after_parts", "a part of each prompt was asked before", "half, one block or all but one token", is_part,
       run_after_parts},
      {"after_eviction", "one after the other through a small pool, several times", "an integer in 0 ... 999", is_count,
       run_after_eviction},
      {"lineage", "prompts with equal blocks behind different beginnings", "first block or first token", is_lineage,
       run_lineage},
      {"after_others", "each after so many other requests; 0: each the first of an engine", "an integer in 0 ... 999",
       is_count, run_after_others},
      {"several", "so many answers to one request, against single requests", "2 ... 9", is_several, run_several},
      {"scored", "the answer's tokens scored as given text", "alone or at once", is_company, run_scored},
      {"forced", "the answer's tokens given, and gone on from", "half or all", is_share, run_forced},
      {"logprobs", "other logprobs asked for", "none, 0, 20, of the prompt or processed", is_logprobs, run_logprobs},
      {"stopped", "a stop string ends the answer", "alone or at once", is_company, run_stopped},
      {"embedded", "embeddings of the prompts, all at once", "mean or last", is_pooling, run_embedded},
      {"seeds", "a prompt under many seeds at once", "reversed, rotated or odd first", is_order, run_seeds},
      {"streamed", "tokens handed out one by one", "token by token or while the next is computed", is_streaming,
       run_streamed},
      {"in_process", "a process of its own runs the requests", "alone or at once", is_command, run_in_process},
      {"in_service", "so many threads ask a service", "an integer in 0 ... 999", is_count, run_in_service},
      {"over_http", "a server in a process of its own", "whole or streamed", is_delivery, run_over_http},
      {"traced", "every intermediate result is written down", "written", is_trace, run_traced},
      {kFreeControl.data(), "cells of this matrix in free-order arithmetic: each must be seen to fail",
       "names of cells that say `sensitive`", any, by_runner},
      {kNumericsControl.data(), "answers under another numerics: they must be seen to differ", "mma16, fma32 or int8",
       [](std::string_view value) { return value == "mma16" || value == "fma32" || value == "int8"; }, by_runner},
  };
  return ways;
}

const Way* find_way(std::string_view name) {
  for (const Way& way : all_ways()) {
    if (name == way.name) return &way;
  }
  return nullptr;
}

}  // namespace eadem::audit::accept
