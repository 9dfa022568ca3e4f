// The guides of requests: compiled once for each schema, regular expression or grammar, and kept while they are in use.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/result.h"
#include "eadem/request.h"
#include "engine/token_guide.h"
#include "text/guide.h"
#include "text/tokenizer.h"

namespace eadem::api {

// Safe from every thread.
class Guides {
 public:
  // ends: the tokens at which an answer ends.
  Guides(std::optional<text::Tokenizer> tokenizer, const std::vector<int32_t>& ends);

  // The guide at its beginning, to be cloned. Errors: no tokenizer, or what cannot be expressed or costs too much.
  Result<std::shared_ptr<const engine::TokenGuide>> find(const Guide& guide);

  // The guide of a request; null where it has none. Errors name the field, also where a forced continuation leaves the
  // guide.
  Result<std::shared_ptr<const engine::TokenGuide>> of(const SamplingParams& sampling);

 private:
  using Entry = std::pair<Guide, std::shared_ptr<const engine::TokenGuide>>;

  Result<text::GuideFactory> factory();
  std::shared_ptr<const engine::TokenGuide> recall(const Guide& guide);

  const std::optional<text::Tokenizer> tokenizer_;
  std::vector<uint32_t> ends_;
  std::mutex making_;  // of the factory
  std::optional<text::GuideFactory> factory_;
  std::mutex keeping_;     // of kept_
  std::list<Entry> kept_;  // last used first
};

}  // namespace eadem::api
