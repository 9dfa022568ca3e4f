// One cell while it is carried out: what was compared, what differed first, what speaks for it.
#pragma once

#include <string>
#include <vector>

#include "audit/black_box/answer.h"
#include "audit/black_box/presence.h"
#include "audit/black_box/traffic.h"
#include "audit/verdict.h"

namespace eadem::audit::black_box {

// How much of two answers is compared.
enum class Extent : uint8_t {
  kAll,     // everything, and the same things must be given
  kCommon,  // what both give
  kPrefix,  // the second is the first's beginning: tokens, logprobs, text; it may end for another reason
};

// Null, or the first difference as audit/difference.h tells it. Logprobs are compared as the numbers that were printed.
nlohmann::ordered_json difference_of(const Choice& was, const Choice& is, Extent extent = Extent::kAll);

// Whether no further request is worth sending: the endpoint is gone, refuses access, or hangs.
bool is_lost(const Sent& sent);

class Trial {
 public:
  explicit Trial(Cell cell) { result_.cell = std::move(cell); }

  // From now on runs are of this value.
  void begin(const std::string& value);
  // Holds an answer against the one before; true where they are equal.
  bool compare(const std::string& request, const Choice& was, const Choice& is, Extent extent = Extent::kAll);
  // A request without an answer. True where the endpoint itself is lost.
  void no_answer(const std::string& request, const Sent& sent);
  // Evidence of the run that was begun.
  void note(const char* name, nlohmann::ordered_json value);
  // What speaks for the last request having run beside others.
  void company(const std::string& request, const Presence& presence);
  // The cell holds without a comparison of answers.
  void held() { held_ = true; }
  // Why the cell could not be tested; the first reason counts.
  void cannot(const std::string& reason);
  void fail(const std::string& reason);
  void interrupted() { interrupted_ = true; }

  bool differed() const { return !result_.first_difference.is_null(); }
  const std::string& lost() const { return lost_; }  // why the endpoint is lost; empty: it is not
  CellResult finish(double seconds);

 private:
  nlohmann::ordered_json& run();

  CellResult result_;
  std::string failure_, reason_, lost_;
  bool interrupted_ = false, held_ = false;
};

}  // namespace eadem::audit::black_box
