// manifest.json of a corpus: what its files are, and once it is frozen their hashes.
#pragma once

#include <string>
#include <string_view>

#include "audit/corpus.h"

namespace eadem::audit {

inline constexpr std::string_view kCorpusManifest = "manifest.json";
inline constexpr std::string_view kCorpusFormat = "eadem-corpus-1";

// The corpus without its requests. Errors name the field and what it must be.
Result<Corpus> parse_manifest(std::string_view text);
std::string manifest_text(const Corpus& corpus);

// Over the format, and each file's name, category, level and hash; neither the licence, the day nor the corpus's name.
std::string digest_of(const Corpus& corpus);

// "2026-11-29".
bool is_day(std::string_view text);
// 1 to 128 letters, digits, '.', '_' and '-', not beginning with a '.': what cannot lead out of a folder.
bool is_plain_name(std::string_view text);

}  // namespace eadem::audit
