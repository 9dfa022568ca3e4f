// What the acceptance matrix finds: a cell says what may not move and what is varied, its result says whether it moved
// and shows why one may believe it. The same for a matrix inside this process, against an endpoint, and in reports.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace eadem::audit {

enum class Verdict : uint8_t {
  kPass,         // the path was taken, and nothing moved
  kFail,         // something moved, or the path was not taken, or the cell could not be carried out
  kNotTestable,  // the target gives no means to vary this (a foreign server; a machine with one kernel set)
  kNotRun,       // an interrupt came first, or the matrix in use leaves it out
};

// "pass", "fail", "not_testable", "not_run".
std::string_view to_string(Verdict verdict);

struct Cell {
  std::string name;       // "batch.position": lower case, digits, '.', '_', '-'; unique in its matrix
  std::string invariant;  // a sentence: what must hold
  std::string variable;   // what is varied, in a few words
  std::vector<std::string> values;
  std::string level = "bits";           // a name of audit/difference.h
  std::vector<std::string> categories;  // of the corpus
  std::vector<std::string> proof;       // what the evidence must show, as "preemptions >= 1"
  // The negative control: it passes where the comparison finds a difference. A matrix whose control sees none has
  // proved nothing, and fails as a whole.
  bool control = false;
  // What the matrix is about: where this could not be tested, nothing was accepted, whatever else passed.
  bool required = false;
};

struct CellResult {
  Cell cell;
  std::string numerics;  // full name, as "fma32-v1"; a foreign server's: whatever it tells, or empty
  Verdict verdict = Verdict::kNotRun;
  std::string reason;  // one line: why it failed, was not testable or not run; empty where it passed
  int compared = 0;    // answers held against their baselines, over all values
  int equal = 0;
  double seconds = 0.0;
  // Free in form; report pages show any. In use: "runs": one object for each value that was run, with "value",
  // "counters" (what moved: after less before), "compared", "equal", "proof" (each condition, what was counted, whether
  // it held); "requests": one object for each request, with "id", "tokens_hash", "logprobs_hash", "kv_hash".
  nlohmann::ordered_json evidence = nlohmann::ordered_json::object();
  // null, or what audit/difference.h says of the first answer that differed, with "request" and "value" before it.
  nlohmann::ordered_json first_difference;
};

struct MatrixResult {
  std::string matrix;   // "quick", "full" or a file's name
  std::string target;   // "in process", or an endpoint's URL
  std::string model;    // as it was asked for
  std::string version;  // of this program
  std::string command;  // one line
  std::string started;  // RFC 3339, UTC
  double seconds = 0.0;
  bool interrupted = false;
  std::vector<std::string> numerics;                                     // that were run, by full name
  nlohmann::ordered_json identities = nlohmann::ordered_json::object();  // numerics -> identity digest
  nlohmann::ordered_json machine = nlohmann::ordered_json::object();
  nlohmann::ordered_json corpus = nlohmann::ordered_json::object();   // "name", "digest", "requests"
  nlohmann::ordered_json options = nlohmann::ordered_json::object();  // whatever else was in force
  std::vector<CellResult> cells;
};

struct Tally {
  int pass = 0, fail = 0, not_testable = 0, not_run = 0;
};

Tally tally(const MatrixResult& result);

// Nothing failed and nothing was left undone, at least one cell besides the controls passed, every required cell
// passed, and under each numerics that has controls one of them saw the difference that it should see. A control that
// saw none is a cell that failed.
bool passed(const MatrixResult& result);
// "38 of 41 cells passed, 1 failed, 2 were not testable".
std::string summary(const MatrixResult& result);

// "kind": "accept", "verdict": "pass", "fail" or "not_testable" (nothing failed, but what was tested is too little to
// pass), and every field above by its name.
nlohmann::ordered_json to_json(const Cell& cell);
nlohmann::ordered_json to_json(const CellResult& result);
nlohmann::ordered_json to_json(const MatrixResult& result);

}  // namespace eadem::audit
