// What the tokens of one answer must match: the engine's view of a grammar. Who implements it knows text; the engine
// knows tokens alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/result.h"

namespace eadem::engine {

// A place in a grammar, moved on by the answer's own tokens and by nothing else: which tokens may follow is a function
// of those before. One thread at a time.
class TokenGuide {
 public:
  virtual ~TokenGuide() = default;

  // Writes all words of `allowed`: bit t % 32 of word t / 32 is set where token t may follow here. End-of-text tokens
  // may where what stands there is a whole. Errors: the grammar is too complex at this place, or nothing may follow.
  virtual Result<void> mask(std::span<uint32_t> allowed) = 0;
  // Moves over a token. Errors: it may not follow here (then the guide stays where it was), or complexity.
  virtual Result<void> accept(int32_t token) = 0;
  // Nothing may follow: the answer ends here.
  virtual bool finished() const = 0;
  // One at the same place, independent of this one. Any thread, as long as none moves this one.
  virtual std::unique_ptr<TokenGuide> clone() const = 0;
};

}  // namespace eadem::engine
