// One value of one cell while it is carried out: what it has to work with, what it compared, what it counted.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "audit/accept/lab.h"
#include "audit/accept/matrix.h"

namespace eadem::audit::accept {

class Trial {
 public:
  Trial(const CellSpec& spec, std::string value, Lab& lab, std::vector<Question> questions);

  // The engine's options for this value: the lab's, the cell's, the value itself.
  Result<void> prepare();

  const CellSpec& spec() const { return spec_; }
  const std::string& value() const { return value_; }
  int number() const;  // the value as a number; a way that asks for it has checked it
  Lab& lab() { return lab_; }
  const std::vector<Question>& questions() const { return questions_; }
  std::vector<Request> requests() const;
  EngineOptions& options() { return options_; }

  // A new engine under options(); facts tell what it is.
  Result<Engine> open();
  // Runs them, and counts what moved.
  Result<std::vector<std::vector<Completion>>> run(Engine& engine, std::span<const Request> requests,
                                                   const Company& company = {});
  // Adds to a fact.
  void count(const std::string& fact, int64_t number = 1) { facts_[fact] += number; }
  void at_least(const std::string& fact, int64_t number) { facts_[fact] = std::max(facts_[fact], number); }
  Facts& facts() { return facts_; }

  // Holds an answer against what its request got alone. Errors: that cannot be computed.
  Result<void> hold(const Question& question, const Completion& is);
  // The same for one that is no question of the corpus; the id is for people.
  Result<void> hold(const std::string& id, const Request& request, const Completion& is);
  // Answers as `eadem generate` writes them. What `was` lacks is not compared.
  void hold(const std::string& id, const nlohmann::ordered_json& was, const nlohmann::ordered_json& is, Level level);
  nlohmann::ordered_json json_of(const Request& request, const Completion& answer);

  int compared() const { return compared_; }
  int equal() const { return equal_; }
  const nlohmann::ordered_json& first_difference() const { return first_difference_; }

  // The cell cannot be carried out here, and why: a verdict, not a failure.
  void not_testable(std::string why) { not_testable_ = std::move(why); }
  const std::string& why_not_testable() const { return not_testable_; }

  // {"value", "counters", "compared", "equal", "seconds", "proof", "different", "requests"}.
  nlohmann::ordered_json evidence(double seconds) const;
  // The first condition of the cell that does not hold; empty where all do.
  std::string unproved() const;

 private:
  const CellSpec& spec_;
  std::string value_;
  Lab& lab_;
  std::vector<Question> questions_;
  EngineOptions options_;
  Facts facts_;
  int compared_ = 0, equal_ = 0;
  nlohmann::ordered_json first_difference_;
  nlohmann::ordered_json requests_ = nlohmann::ordered_json::array();
  std::string not_testable_;
};

}  // namespace eadem::audit::accept
