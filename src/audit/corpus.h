// The frozen corpus: requests whose answers an engine is held to. A folder of JSONL files, each of one category, and a
// manifest.json that tells their hashes (docs/gate.md). A line is a request of docs/requests.md with an `id` of its
// own. Nothing here needs a model.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "audit/difference.h"
#include "core/result.h"
#include "eadem/engine.h"

namespace eadem::audit {

struct CorpusRequest {
  std::string id;  // unique in the corpus: letters, digits, '.', '_' and '-'
  std::string category;
  Level level = Level::kBits;                                    // at which its answer is compared: bits or tokens
  nlohmann::ordered_json request;                                // a line of docs/requests.md without its id
  bool is_chat() const { return request.contains("messages"); }  // needs a model with a template
};

struct CorpusFile {
  std::string name;  // "short.jsonl"
  std::string category;
  Level level = Level::kBits;
  uint64_t requests = 0, bytes = 0;
  std::string blake3;  // 64 hexadecimal digits
};

struct Corpus {
  std::string name, licence;
  std::string frozen;  // the day, as 2026-11-29; empty: it may still change
  std::string digest;  // BLAKE3 over what decides the answers: names, categories, levels and contents of the files
  std::vector<CorpusFile> files;        // in the order of the manifest
  std::vector<CorpusRequest> requests;  // in the order of the files
};

// Most of a corpus: requests, files, and bytes of a file.
inline constexpr size_t kMostCorpusRequests = 100000, kMostCorpusFiles = 256;
inline constexpr uint64_t kMostCorpusBytes = uint64_t{64} << 20;

// Errors name the file and the line: a field that is unknown, a hash that differs, a file that is missing or that the
// manifest does not name, an id that stands there twice, a name that leads out of the folder, too much of anything.
Result<Corpus> read_corpus(const std::string& folder);

// The one in the program itself (corpus/default).
const Corpus& default_corpus();

// The request for this model, over plain defaults: a model's own sampling defaults are no part of its identity.
// Errors: the model has no tokenizer or template; a guide that cannot be used.
Result<Request> to_request(const Engine& engine, const CorpusRequest& request);

// One line of a corpus file: a request with an id, that draws with a seed or not at all.
Result<CorpusRequest> parse_corpus_line(std::string_view line);

// What adds to a corpus that is not frozen. `lines` are whole lines of a file named `category`.jsonl, which is made or
// appended to; a folder without manifest.json becomes a corpus of the folder's name. Errors as for read_corpus; nothing
// is written then.
struct CorpusAddition {
  std::string category;
  Level level = Level::kBits;
  std::string licence = "unknown";  // of a new corpus
  std::vector<std::string> lines;
};
Result<Corpus> add_to_corpus(const std::string& folder, const CorpusAddition& addition);

// Writes the hashes and the day, from when on nothing may change.
Result<Corpus> freeze_corpus(const std::string& folder, const std::string& day);
// The way back: the corpus may change again, and no baseline is of it any more once it has.
Result<void> thaw_corpus(const std::string& folder);

}  // namespace eadem::audit
