// Any bytes as a line of JSONL: an error of one short line, or a request whose sampling parameters can be written and
// read back.
#include <nlohmann/json.hpp>

#include "api/request_json.h"
#include "consume.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto line = eadem::api::parse_line({reinterpret_cast<const char*>(data), size});
  if (!line.ok()) {
    eadem::fuzz::consume(line.error());
    return 0;
  }
  const auto request = eadem::api::parse_request(line.value(), {});
  if (!request.ok()) {
    eadem::fuzz::consume(request.error());
    return 0;
  }
  const nlohmann::json written = eadem::api::to_json(request.value().sampling);
  const auto again = eadem::api::parse_sampling(written, {});
  EADEM_CHECK(again.ok() && nlohmann::json(eadem::api::to_json(again.value())) == written);
  return 0;
}
