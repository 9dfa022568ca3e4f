#include "fixtures_io.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace eadem::text {
namespace {

uint32_t little_endian(const char* bytes, size_t count) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= uint32_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

template <class T>
std::optional<T> optional_of(const nlohmann::json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<T>();
}

}  // namespace

std::string read_file(const std::string& name) {
  std::ifstream file(std::string(EADEM_SOURCE_DIR "/tests/unit/text/fixtures/") + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << "fixture " << name << " is missing: run tests/unit/text/make_fixtures.py";
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

std::vector<std::string> read_records(const std::string& name) {
  const std::string bytes = read_file(name);
  std::vector<std::string> records;
  for (size_t at = 0; at + 4 <= bytes.size();) {
    const size_t size = little_endian(&bytes[at], 4);
    records.push_back(bytes.substr(at + 4, size));
    at += 4 + size;
  }
  return records;
}

std::vector<uint32_t> unpack_ids(const std::string& record) {
  std::vector<uint32_t> ids;
  for (size_t i = 0; i + 2 <= record.size(); i += 2) ids.push_back(little_endian(&record[i], 2));
  return ids;
}

std::vector<std::vector<uint32_t>> read_ids(const std::string& name) {
  std::vector<std::vector<uint32_t>> ids;
  for (const std::string& record : read_records(name)) ids.push_back(unpack_ids(record));
  return ids;
}

GgufVocab read_vocab(const std::string& name) {
  const std::vector<std::string> records = read_records(name);
  GgufVocab vocab;
  if (records.size() != 5) {
    ADD_FAILURE() << name << " has " << records.size() << " records, not 5";
    return vocab;
  }
  const nlohmann::json header = nlohmann::json::parse(records[0]);
  vocab.model = header["model"];
  vocab.pre = header["pre"];
  vocab.bos_id = optional_of<uint32_t>(header["bos"]);
  vocab.eos_id = optional_of<uint32_t>(header["eos"]);
  vocab.unknown_id = optional_of<uint32_t>(header["unknown"]);
  vocab.pad_id = optional_of<uint32_t>(header["pad"]);
  vocab.add_bos = optional_of<bool>(header["add_bos"]);
  vocab.add_eos = optional_of<bool>(header["add_eos"]);
  vocab.add_space_prefix = optional_of<bool>(header["add_space_prefix"]);
  for (size_t at = 0; at < records[1].size(); at += 1 + static_cast<uint8_t>(records[1][at])) {
    vocab.tokens.push_back(records[1].substr(at + 1, static_cast<uint8_t>(records[1][at])));
  }
  for (size_t at = 0; at < records[2].size(); at += 4) {
    const uint32_t bits = little_endian(&records[2][at], 4);
    float score;
    std::memcpy(&score, &bits, sizeof score);
    vocab.scores.push_back(score);
  }
  for (const char type : records[3]) vocab.token_types.push_back(type);
  for (size_t at = 0; at < records[4].size(); at += 6) {
    const std::string& left = vocab.tokens[little_endian(&records[4][at], 2)];
    const std::string& right = vocab.tokens[little_endian(&records[4][at + 2], 2)];
    vocab.merges.push_back(left + " " + right);
    vocab.tokens[little_endian(&records[4][at + 4], 2)] = left + right;
  }
  EXPECT_EQ(vocab.tokens.size(), header["tokens"].get<size_t>());
  return vocab;
}

}  // namespace eadem::text
