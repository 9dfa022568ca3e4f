#include "weights/json_text.h"

#include <functional>
#include <new>
#include <set>
#include <stdexcept>
#include <vector>

#include "weights/message.h"

namespace eadem::weights {
namespace {

constexpr int kDepthLimit = 64;

// A fault that nlohmann's parser would accept; thrown through it, and caught below.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Watches the events of a parse: nlohmann keeps the last of two equal keys, and builds any depth.
class Watch {
 public:
  bool operator()(int depth, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (depth > kDepthLimit) throw Refused("is nested deeper than " + std::to_string(kDepthLimit) + " levels");
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      throw Refused("has the key " + quote(parsed.get_ref<const std::string&>()) + " twice");
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

}  // namespace

Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& file) {
  try {
    Watch watch;
    nlohmann::json parsed = nlohmann::json::parse(text.begin(), text.end(), std::ref(watch));
    if (!parsed.is_object()) return Error{file + ": the JSON is no object: " + std::string(kDamaged)};
    return parsed;
  } catch (const nlohmann::json::parse_error& fault) {
    return Error{file + ": is not valid JSON (at byte " + std::to_string(fault.byte) + "): " + std::string(kDamaged)};
  } catch (const nlohmann::json::exception&) {
    return Error{file + ": the JSON has a number that no double can hold: " + std::string(kDamaged)};
  } catch (const Refused& fault) {
    return Error{file + ": the JSON " + fault.what() + ": " + std::string(kDamaged)};
  } catch (const std::bad_alloc&) {
    return Error{file + ": there is not enough memory to read this JSON: use a machine with more"};
  }
}

}  // namespace eadem::weights
