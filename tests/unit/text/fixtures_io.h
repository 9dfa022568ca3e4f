// Reads the files of fixtures/, which make_fixtures.py describes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace eadem::text {

// Fails the running test and returns nothing if the file is missing.
std::string read_file(const std::string& name);
std::vector<std::string> read_records(const std::string& name);
std::vector<std::vector<uint32_t>> read_ids(const std::string& name);
std::vector<uint32_t> unpack_ids(const std::string& record);
GgufVocab read_vocab(const std::string& name);

}  // namespace eadem::text
