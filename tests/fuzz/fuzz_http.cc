// Any bytes as what a client sends on one connection: requests, the same however the bytes are cut, or one error. The
// first byte says how they are cut.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "server/http/request_reader.h"
#include "server/http/response.h"
#include "server/http/target.h"

namespace {

using eadem::server::ReaderLimits;
using eadem::server::RequestReader;

constexpr ReaderLimits kLimits{.header = 1024, .body = 2048};

// The requests that came of all bytes, when they come in pieces of `cut` bytes. What follows the last is refused or
// waits for more; which of the two may depend on the pieces, since the parser looks at a line again only when enough
// has come.
std::string read_all(std::string_view bytes, size_t cut) {
  std::string seen, inbox;
  auto reader = std::make_unique<RequestReader>(kLimits);
  while (!bytes.empty()) {
    const size_t size = std::min(cut, bytes.size());
    inbox += bytes.substr(0, size);
    bytes.remove_prefix(size);
    while (!inbox.empty()) {
      const auto before = reader->state();
      const size_t used = reader->feed(inbox);
      EADEM_CHECK(used <= inbox.size());
      inbox.erase(0, used);
      EADEM_CHECK(reader->request().body.size() <= kLimits.body);
      if (reader->state() == RequestReader::State::kFailed) {
        EADEM_CHECK(reader->fault_status() >= 400 && !reader->fault().empty());
        EADEM_CHECK(reader->fault().find('\n') == std::string::npos);
        return seen;
      }
      if (reader->state() == RequestReader::State::kDone) {
        const auto& request = reader->request();
        EADEM_CHECK(!request.path.empty() && (request.path[0] == '/' || request.path == "*"));
        seen += request.method + " " + request.path + " " + request.body + "\n";
        for (const auto& [name, value] : request.headers) seen += name + ":" + value + "\n";
        const auto id = request.headers.find("x-request-id");
        const auto trace = request.headers.find("traceparent");
        if (id != request.headers.end()) eadem::server::request_id(id->second);
        if (trace != request.headers.end())
          EADEM_CHECK(eadem::server::continue_trace(trace->second).parent.size() == 55);
        eadem::server::json_string(request.path);
        reader = std::make_unique<RequestReader>(kLimits);
      } else if (used == 0 && reader->state() == before) {
        EADEM_CHECK(inbox.size() < kLimits.header);  // what is kept unread is bounded
        break;
      }
    }
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = read_all(bytes, bytes.size() + 1);
  const std::string cut = read_all(bytes, 1 + data[0]);
  EADEM_CHECK(whole == cut);
  return 0;
}
