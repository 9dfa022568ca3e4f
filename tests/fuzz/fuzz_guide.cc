// Any bytes as a JSON schema, a regular expression or a Lark grammar (the first byte says which): one clear error, or a
// guide whose masks let through what it then accepts.
#include <memory>

#include "consume.h"
#include "support/tiny_text.h"
#include "text/guide.h"

namespace {

using namespace eadem;

constexpr uint32_t kVocab = 211, kEnd = 1;
constexpr int kSteps = 6;

const text::GuideFactory& factory() {
  static const auto made = [] {
    const auto tokenizer = text::Tokenizer::from_json(testing::tiny_tokenizer());
    EADEM_CHECK(tokenizer.ok());
    auto result = text::GuideFactory::make(tokenizer.value(), std::span(&kEnd, 1));
    EADEM_CHECK(result.ok());
    return std::make_unique<text::GuideFactory>(std::move(result).value());
  }();
  return *made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto made = factory().guide(static_cast<text::GuideKind>(data[0] % 3), text);
  if (!made.ok()) {
    fuzz::consume(made.error());
    return 0;
  }
  text::Guide guide = std::move(made).value();
  std::vector<uint32_t> allowed((kVocab + 31) / 32);
  for (int step = 0; step < kSteps && !guide.finished(); ++step) {
    if (const auto masked = guide.mask(allowed); !masked.ok()) {
      fuzz::consume(masked.error());
      return 0;
    }
    // The first that may follow after a place that the input chooses.
    uint32_t token = kVocab;
    for (uint32_t i = 0; i < kVocab && token == kVocab; ++i) {
      const uint32_t t = (i + data[size - 1 - static_cast<size_t>(step) % size]) % kVocab;
      if (t != kEnd && (allowed[t / 32] >> (t % 32) & 1) != 0) token = t;
    }
    if (token == kVocab) return 0;  // only the end may follow
    if (const auto taken = guide.accept(token); !taken.ok()) {
      fuzz::consume(taken.error());
      return 0;
    }
  }
  return 0;
}
