// One run of an engine over the fake model: what a unit test compares between ways of cutting the same work.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "support/engine_run.h"
#include "support/fake_model.h"

namespace eadem::testing {

inline engine::Options options(int max_batch, int chunk, int blocks, bool prefix = true) {
  engine::Options o;
  o.max_batch = max_batch;
  o.prefill_chunk = chunk;
  o.kv_blocks = blocks;
  o.prefix_cache = prefix;
  return o;
}

struct Ran {
  Answers answers;
  Counters counters;
};

// Every answer ends, and no block stays held.
inline Ran run(const engine::Options& o, const std::vector<engine::SequenceRequest>& requests,
               const FakeOptions& fake = {}) {
  FakeModel model(fake);
  auto engine = engine::Engine::create(model, o).value();
  Ran result{run_all(*engine, requests), engine->counters()};
  EXPECT_EQ(engine->free_blocks(), engine->kv_blocks());
  for (const auto& answer : result.answers) EXPECT_TRUE(answer->finished);
  return result;
}

}  // namespace eadem::testing
