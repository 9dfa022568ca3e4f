// BLAKE3 against the published answers of its specification.
#include <gtest/gtest.h>

#include "text/blake3.h"

namespace eadem::text {
namespace {

TEST(Blake3, KnownAnswers) {
  Blake3 empty;
  EXPECT_EQ(empty.hex_digest(), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
  Blake3 abc;
  abc.update("abc");
  EXPECT_EQ(abc.hex_digest(), "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
}

// The cut of the input does not matter, its order does; a digest does not end the stream.
TEST(Blake3, StreamsOverChunkBorders) {
  std::string data;
  for (int i = 0; i < 5000; ++i) data += static_cast<char>(i * 7 + i / 251);
  Blake3 whole, parts, swapped;
  whole.update(data);
  for (size_t at = 0; at < data.size(); at += 777) {
    parts.update(data.substr(at, 777));
    (void)parts.digest();
  }
  std::swap(data[0], data[4999]);
  swapped.update(data);
  EXPECT_EQ(whole.hex_digest(), parts.hex_digest());
  EXPECT_NE(whole.hex_digest(), swapped.hex_digest());
}

}  // namespace
}  // namespace eadem::text
