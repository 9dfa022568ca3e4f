// The text side of a checkpoint: its tokenizer, its chat template, the tokens that end an answer, its sampling
// defaults.
#pragma once

#include <optional>
#include <vector>

#include "eadem/request.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "weights/checkpoint.h"

namespace eadem::api {

// Absent where the model has none; an error where it has one that cannot be used.
Result<std::optional<text::Tokenizer>> load_tokenizer(const weights::Checkpoint& checkpoint);
Result<std::optional<text::ChatTemplate>> load_chat_template(const weights::Checkpoint& checkpoint);

// End-of-text tokens: generation_config.json, else the model's own description, and what the tokenizer names.
Result<std::vector<int32_t>> load_eos(const weights::Checkpoint& checkpoint,
                                      const std::optional<text::Tokenizer>& tokenizer);

// Sampling defaults of generation_config.json over this project's own. do_sample: false means greedy.
Result<SamplingParams> load_default_sampling(const weights::Checkpoint& checkpoint);

}  // namespace eadem::api
