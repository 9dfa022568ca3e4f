// A cell of the invariance matrix: one way of running the same requests. Whatever the way, the answers must be the
// golden bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/result.h"
#include "eadem/engine.h"
#include "kernels/kernel_set.h"
#include "weights/checkpoint.h"

namespace eadem::tests {

struct Prompt {
  std::string name;
  std::vector<int32_t> tokens;
};

// Lines "name: id id id".
Result<std::vector<Prompt>> read_prompts(const std::string& path);

constexpr int kAnswerTokens = 16;

struct Cell {
  numerics::Numerics numerics = numerics::Numerics::kFma32;
  const kernels::KernelSet* kernels = nullptr;
  int threads = 1;
  int batch = 1;    // sequences at once
  int chunk = 512;  // rows of a step
  std::string prefix =
      "cold";          // cold: no cache; warm: all was asked before; partial: half of each prompt was asked before
  int preempt = 0;     // tokens between forced preemptions; -1: a pool too small for the batch; 0: none
  bool score = false;  // the answers' logprobs again, as a prompt's
  int max_prompt = 0;  // longest prompt used; 0: all
  // off, ngram, or draft: the same weights in another arithmetic guess
  std::string speculation = "off";
  int max_tokens = kAnswerTokens;

  std::string describe() const;
};

// "prompt/greedy" or "prompt/seeded", with "/N" where answers have N tokens instead of kAnswerTokens -> SHA-256 over
// token ids, logprobs as float32 bits, and the KV hash.
using Hashes = std::map<std::string, std::string>;

// Runs the cell; fails where its path was not taken (no preemption in a preemption cell, ...), so that no cell can pass
// by doing something else than its name says.
Result<Hashes> run_cell(const weights::Checkpoint& checkpoint, const std::vector<Prompt>& prompts, const Cell& cell);

}  // namespace eadem::tests
