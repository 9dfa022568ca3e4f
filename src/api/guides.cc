#include "api/guides.h"

#include <algorithm>
#include <string>

namespace eadem::api {
namespace {

// A hostile grammar may hold some tens of megabytes.
constexpr size_t kKept = 16;

class TextGuide final : public engine::TokenGuide {
 public:
  explicit TextGuide(text::Guide guide) : guide_(std::move(guide)) {}

  Result<void> mask(std::span<uint32_t> allowed) override { return guide_.mask(allowed); }
  Result<void> accept(int32_t token) override { return guide_.accept(static_cast<uint32_t>(token)); }
  bool finished() const override { return guide_.finished(); }
  std::unique_ptr<engine::TokenGuide> clone() const override { return std::make_unique<TextGuide>(guide_.fork()); }

 private:
  text::Guide guide_;
};

std::string_view name_of(Guide::Kind kind) {
  switch (kind) {
    case Guide::Kind::kJsonSchema: return "JSON schema";
    case Guide::Kind::kRegex: return "regular expression";
    case Guide::Kind::kLark: return "grammar";
  }
  return "guide";
}

text::GuideKind kind_of(Guide::Kind kind) {
  switch (kind) {
    case Guide::Kind::kJsonSchema: return text::GuideKind::kJsonSchema;
    case Guide::Kind::kRegex: return text::GuideKind::kRegex;
    case Guide::Kind::kLark: break;
  }
  return text::GuideKind::kLark;
}

}  // namespace

Guides::Guides(std::optional<text::Tokenizer> tokenizer, const std::vector<int32_t>& ends)
    : tokenizer_(std::move(tokenizer)), ends_(ends.begin(), ends.end()) {}

Result<std::shared_ptr<const engine::TokenGuide>> Guides::find(const Guide& guide) {
  if (auto known = recall(guide)) return known;
  EADEM_ASSIGN_OR_RETURN(const text::GuideFactory maker, factory());
  auto made = maker.guide(kind_of(guide.kind), guide.text);
  if (!made.ok()) {
    return Error{"this " + std::string(name_of(guide.kind)) + " cannot be used: " + made.error().message};
  }
  std::shared_ptr<const engine::TokenGuide> found = std::make_shared<TextGuide>(std::move(made).value());
  const std::lock_guard lock(keeping_);
  kept_.emplace_front(guide, found);
  if (kept_.size() > kKept) kept_.pop_back();
  return found;
}

std::shared_ptr<const engine::TokenGuide> Guides::recall(const Guide& guide) {
  const std::lock_guard lock(keeping_);
  const auto known = std::find_if(kept_.begin(), kept_.end(), [&](const Entry& e) { return e.first == guide; });
  if (known == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, known);
  return kept_.front().second;
}

// Made for the first request that needs it: it takes some tenths of a second.
Result<text::GuideFactory> Guides::factory() {
  if (!tokenizer_) return Error{"the model has no tokenizer"};
  const std::lock_guard lock(making_);
  if (!factory_) {
    auto made = text::GuideFactory::make(*tokenizer_, ends_);
    if (!made.ok()) return Error{made.error()};
    factory_ = std::move(made).value();
  }
  return *factory_;
}

Result<std::shared_ptr<const engine::TokenGuide>> Guides::of(const SamplingParams& sampling) {
  if (!sampling.guide) return std::shared_ptr<const engine::TokenGuide>();
  auto found = find(*sampling.guide);
  if (!found.ok()) return Error{"guide: " + found.error().message};
  const std::vector<int32_t>& forced = sampling.golden_token_ids;
  if (forced.empty()) return found;
  const auto place = found.value()->clone();
  for (size_t i = 0; i < forced.size(); ++i) {
    const auto accepted = place->accept(forced[i]);
    if (accepted.ok()) continue;
    return Error{"golden_token_ids leaves the guide at element " + std::to_string(i) + ": " + accepted.error().message};
  }
  return found;
}

}  // namespace eadem::api
