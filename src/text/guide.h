// Which tokens may follow so that a text matches a JSON schema, a regular expression or a Lark grammar. A GuideFactory
// never changes after it was made: any number of threads may use one, and copies share it. The work is done by
// llguidance in the Rust library in rust/text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/result.h"
#include "text/tokenizer.h"

struct EademGuideFactory;
struct EademGuide;

namespace eadem::text {

enum class GuideKind : uint8_t { kJsonSchema, kRegex, kLark };

// A place in a grammar, for one thread at a time. Masks depend on the tokens accepted before and on nothing else.
class Guide {
 public:
  // Writes all words of `allowed`: bit t % 32 of word t / 32 is set where token t may follow. The factory's end tokens
  // may where the text so far matches as a whole. Errors: too complex at this place, or no token may follow.
  Result<void> mask(std::span<uint32_t> allowed);
  // Moves over a token. Errors: it may not follow (then the guide stays where it was), or too complex.
  Result<void> accept(uint32_t token);
  // Nothing may follow.
  bool finished() const;
  // Takes the last `count` tokens back.
  Result<void> rollback(size_t count);
  // One at the same place that shares nothing with this one. Any number of threads may fork one that none moves.
  Guide fork() const;

 private:
  friend class GuideFactory;
  struct Free {
    void operator()(EademGuide* guide) const;
  };
  explicit Guide(EademGuide* handle) : handle_(handle) {}

  std::unique_ptr<EademGuide, Free> handle_;
};

class GuideFactory {
 public:
  // ends: the tokens at which an answer ends. Takes some tenths of a second. Errors: a tokenizer whose tokens have no
  // bytes of their own.
  static Result<GuideFactory> make(const Tokenizer& tokenizer, std::span<const uint32_t> ends);

  // A guide at its beginning. Errors: what cannot be expressed, would cost too much, or matches nothing.
  Result<Guide> guide(GuideKind kind, std::string_view text) const;

 private:
  explicit GuideFactory(EademGuideFactory* handle);

  std::shared_ptr<const EademGuideFactory> handle_;
};

}  // namespace eadem::text
