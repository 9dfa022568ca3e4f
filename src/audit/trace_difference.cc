#include "audit/trace_difference.h"

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/request_json.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

constexpr size_t kLongestLine = 1 << 16;

// A row's place within its answer, and what one op gave there.
struct Line {
  size_t answer = 0;  // index into the names, in the order of first appearance
  int64_t position = 0, layer = 0;
  std::string op, digest;
};

// Files may be long: a line is kept once, and found by its key.
struct Trace {
  std::vector<std::string> answers;
  std::vector<Line> lines;  // the first of each key, in the order of the file
  std::unordered_map<std::string, size_t> by_key;
  ordered_json contradiction;  // a line that repeats another's key with another digest; null: none
};

std::string key_of(const std::string& answer, const Line& line) {
  return answer + '\n' + std::to_string(line.position) + '\n' + std::to_string(line.layer) + '\n' + line.op;
}

ordered_json difference_at(const std::string& answer, const Line& line, const std::string& was, const std::string& is) {
  return {{"answer", answer}, {"position", line.position}, {"layer", line.layer}, {"op", line.op}, {"was", was},
          {"is", is}};
}

bool is_trace_line(const ordered_json& line) {
  return line.is_object() && line.contains("answer") && line["answer"].is_string() && line.contains("position") &&
         line["position"].is_number_integer() && line.contains("layer") && line["layer"].is_number_integer() &&
         line.contains("op") && line["op"].is_string() && line.contains("sha256") && line["sha256"].is_string();
}

class TraceReader {
 public:
  Result<Trace> read(const std::string& path);

 private:
  void take(const ordered_json& object);

  Trace trace_;
  std::unordered_map<std::string, size_t> answers_;
};

void TraceReader::take(const ordered_json& object) {
  const auto name = object["answer"].get<std::string>();
  const auto [found, fresh] = answers_.try_emplace(name, trace_.answers.size());
  if (fresh) trace_.answers.push_back(name);
  Line line{found->second, object["position"].get<int64_t>(), object["layer"].get<int64_t>(),
            object["op"].get<std::string>(), object["sha256"].get<std::string>()};
  const auto [at, first] = trace_.by_key.try_emplace(key_of(name, line), trace_.lines.size());
  if (first) {
    trace_.lines.push_back(std::move(line));
  } else if (trace_.contradiction.is_null() && trace_.lines[at->second].digest != line.digest) {
    trace_.contradiction = difference_at(name, line, trace_.lines[at->second].digest, line.digest);
  }
}

Result<Trace> TraceReader::read(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Error{"cannot read " + path + ": check the path and its permissions"};
  int64_t number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (text.empty()) continue;
    auto line = text.size() <= kLongestLine ? api::parse_line(text) : Result<ordered_json>(Error{"too long"});
    if (!line.ok() || !is_trace_line(line.value()))
      return Error{path + " line " + std::to_string(number) + ": no line of a trace, which `--trace FILE` writes"};
    take(line.value());
  }
  if (file.bad()) return Error{"cannot read " + path + " to its end"};
  if (trace_.lines.empty()) return Error{path + " holds no line of a trace"};
  return std::move(trace_);
}

// Of two lines of one answer and position, the earlier in the file comes first.
struct Earliest {
  bool found = false;
  size_t answer = 0, order = 0;
  int64_t position = 0;

  bool take(size_t of, int64_t at, size_t nth) {
    const bool earlier =
        !found || std::array<int64_t, 3>{static_cast<int64_t>(of), at, static_cast<int64_t>(nth)} <
                      std::array<int64_t, 3>{static_cast<int64_t>(answer), position, static_cast<int64_t>(order)};
    if (earlier) *this = {true, of, nth, at};
    return earlier;
  }
};

ordered_json compare(const Trace& was, const Trace& is) {
  Earliest earliest;
  ordered_json difference;
  for (size_t i = 0; i < was.lines.size(); ++i) {
    const Line& line = was.lines[i];
    const std::string& answer = was.answers[line.answer];
    const auto other = is.by_key.find(key_of(answer, line));
    const std::string& digest = other == is.by_key.end() ? "none" : is.lines[other->second].digest;
    if (digest != line.digest && earliest.take(line.answer, line.position, i))
      difference = difference_at(answer, line, line.digest, digest);
  }
  std::unordered_map<std::string, size_t> known;
  for (size_t i = 0; i < was.answers.size(); ++i) known.emplace(was.answers[i], i);
  for (size_t i = 0; i < is.lines.size(); ++i) {  // what `is` alone has
    const Line& line = is.lines[i];
    const std::string& answer = is.answers[line.answer];
    if (was.by_key.contains(key_of(answer, line))) continue;
    const auto at = known.find(answer);
    const size_t order = at == known.end() ? was.answers.size() + line.answer : at->second;
    if (earliest.take(order, line.position, was.lines.size() + i))
      difference = difference_at(answer, line, "none", line.digest);
  }
  return difference;
}

}  // namespace

Result<ordered_json> first_trace_difference(const std::string& was, const std::string& is) {
  EADEM_ASSIGN_OR_RETURN(const Trace a, TraceReader().read(was));
  EADEM_ASSIGN_OR_RETURN(const Trace b, TraceReader().read(is));
  ordered_json difference = compare(a, b);
  if (difference.is_null()) {
    for (const auto& [trace, path] : {std::pair{&a, &was}, std::pair{&b, &is}}) {
      if (trace->contradiction.is_null()) continue;
      difference = trace->contradiction;
      difference["within"] = *path;
      break;
    }
  }
  if (!difference.is_null()) difference["lines_compared"] = a.lines.size();
  return difference;
}

}  // namespace eadem::audit
