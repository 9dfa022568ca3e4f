#include "contract/json_text.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "weights/message.h"

namespace eadem::contract {
namespace {

using nlohmann::ordered_json;

constexpr int kDeepest = 64;
constexpr size_t kMostFields = 4096;  // found one by one, as they keep their order

// A fault that nlohmann's parser would accept; thrown through it, and caught below.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Watch {
 public:
  bool operator()(int depth, ordered_json::parse_event_t event, const ordered_json& parsed) {
    using Event = ordered_json::parse_event_t;
    if (depth > kDeepest) throw Refused("nested deeper than " + std::to_string(kDeepest) + " levels");
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event != Event::key) return true;
    if (!keys_.back().insert(parsed.get<std::string>()).second) {
      throw Refused("the field " + weights::quote(parsed.get<std::string>()) + " stands there twice");
    }
    if (keys_.back().size() > kMostFields) {
      throw Refused("an object has more than " + std::to_string(kMostFields) + " fields");
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

}  // namespace

Result<ordered_json> parse_json(std::string_view text) {
  try {
    Watch watch;
    return ordered_json::parse(text.begin(), text.end(), std::ref(watch));
  } catch (const ordered_json::parse_error& fault) {
    return Error{"not valid JSON (at byte " + std::to_string(fault.byte) + ")"};
  } catch (const ordered_json::exception&) {
    return Error{"not valid JSON: a number is too large"};
  } catch (const Refused& fault) {
    return Error{fault.what()};
  }
}

}  // namespace eadem::contract
