// Requests for a corpus from the log of `eadem serve --log-prompts`, whose lines hold the bodies that clients sent.
// Whatever may name or open something is taken out first (audit/redact.h); originals are never given back.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "audit/redact.h"

namespace eadem::audit {

struct LogImport {
  std::vector<std::string> lines;            // of a corpus file, each request once; ids are made from what they ask
  uint64_t seen = 0;                         // lines of answered requests
  uint64_t repeated = 0;                     // of them, that ask what another one asked
  std::map<std::string, uint64_t> left_out;  // why -> how many
};

// log: JSON lines; those that are no lines of answered /v1/completions and /v1/chat/completions are passed over.
// most_tokens: an answer is cut there, since logs hold requests that may answer as long as they like.
LogImport import_log(std::string_view log, int most_tokens, Redactor& redactor);

}  // namespace eadem::audit
