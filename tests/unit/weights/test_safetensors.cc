// safetensors: a good file is read as it was written; a table of lying ones is refused, each with its own words.
#include <gtest/gtest.h>

#include <cstring>

#include "expect_error.h"
#include "support/model_files.h"
#include "weights/safetensors.h"

namespace eadem::weights {
namespace {

using test::expect_error;
using test::safetensors_bytes;

auto read(const std::string& bytes) { return read_safetensors(std::as_bytes(std::span(bytes)), "model.safetensors"); }

std::string contents(const TensorView& view) { return {reinterpret_cast<const char*>(view.data), view.bytes}; }

TEST(Safetensors, ReadsWhatWasWritten) {
  const std::vector<test::TensorSpec> specs = {test::random_tensor("z.weight", DType::kF32, {3, 5}, 1),
                                               test::random_tensor("a", DType::kBF16, {2, 2, 4}, 2),
                                               test::random_tensor("half", DType::kF16, {7}, 3),
                                               {"scalar", DType::kU8, {}, "x"},
                                               {"bytes", DType::kU8, {3}, "abc"}};
  const std::string bytes = safetensors_bytes(specs);
  const auto result = read(bytes);
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_EQ(result.value().size(), specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    const TensorView& view = result.value()[i];
    EXPECT_EQ(view.name, specs[i].name);
    EXPECT_EQ(view.dtype, specs[i].dtype);
    EXPECT_EQ(view.shape, specs[i].shape);
    EXPECT_EQ(contents(view), specs[i].bytes);
  }
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string bytes = safetensors_bytes(
      {test::random_tensor("a", DType::kF32, {2, 3}, 1), test::random_tensor("b", DType::kF32, {4}, 2)});
  ASSERT_TRUE(read(bytes).ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    expect_error(read(cut), {"model.safetensors", "the download is incomplete; fetch it again"});
  }
}

// Entries of a header for tensor "x", F32, with 16 bytes of data, as JSON.
std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return "\"dtype\":\"" + std::string(dtype) + "\",\"shape\":" + std::string(shape) +
         ",\"data_offsets\":" + std::string(offsets);
}

struct Lie {
  std::string header;  // padded to a multiple of 8
  std::vector<std::string_view> words;
};

void expect_refused(const std::vector<Lie>& lies, const std::string& data = std::string(16, '\1')) {
  for (const Lie& lie : lies) {
    SCOPED_TRACE(lie.header.substr(0, 200));
    std::string header = lie.header;
    header.resize((header.size() + 7) / 8 * 8, ' ');
    expect_error(read(safetensors_bytes(header, data)), lie.words);
  }
}

TEST(Safetensors, HeadersThatAreNoDescription) {
  expect_refused({
      {"", {"not valid JSON"}},
      {"[]", {"no object"}},
      {"{}", {"no tensors"}},
      {R"({"__metadata__":{"a":"b"}})", {"no tensors"}},
      {R"({"x":3})", {"tensor 'x'", "object"}},
      {R"({"x":{}})", {"tensor 'x'", "no dtype"}},
      {R"({"x":{"dtype":3}})", {"no dtype"}},
      {R"({"x":{"dtype":"F32"}})", {"no shape"}},
      {R"({"x":{"dtype":"F32","shape":4}})", {"no shape"}},
      {R"({"x":{"dtype":"F32","shape":[4]}})", {"data_offsets"}},
      {"{\"x\":{" + entry("F32", "[4]", "[0,16]") + "},\"x\":{" + entry("F32", "[4]", "[0,16]") + "}}",
       {"'x'", "twice"}},
      {"{\"a\\u0000\\nb\":3}", {"a\\x00\\x0ab"}},
      {"{\"x\":" + std::string(1000, '[') + "}", {"nested deeper"}},
  });
}

TEST(Safetensors, TypesThatAreNotSupportedAreNamed) {
  for (const std::string dtype :
       {"F64", "F8_E4M3", "F8_E5M2", "I8", "I16", "U16", "BOOL", "C64", "F4", "Q8_0", "f32", ""}) {
    expect_refused({{"{\"x\":{" + entry(dtype, "[4]", "[0,16]") + "}}",
                     {"model.safetensors: tensor 'x'", "'" + dtype + "'", "not supported"}}});
  }
}

TEST(Safetensors, ShapesThatLie) {
  const auto shaped = [](std::string_view shape) { return "{\"x\":{" + entry("F32", shape, "[0,16]") + "}}"; };
  expect_refused({
      {shaped("[0]"), {"no integer from 1"}},
      {shaped("[-4]"), {"no integer from 1"}},
      {shaped("[4.0]"), {"no integer from 1"}},
      {shaped("[\"4\"]"), {"no integer from 1"}},
      {shaped("[null]"), {"no integer from 1"}},
      {shaped("[18446744073709551615]"), {"no integer from 1"}},
      {shaped("[4611686018427387904]"), {"too large"}},    // times 4 overflows
      {shaped("[4294967296,4294967296]"), {"too large"}},  // the product overflows to 0
      {shaped("[4294967296,4294967297,4]"), {"too large"}},
      {shaped("[1,1,1,1,1,1,1,1,4]"), {"9 dimensions"}},
      {shaped("[5]"), {"F32 [5] takes 20 bytes", "bytes 0..16"}},
      {shaped("[]"), {"takes 4 bytes"}},
  });
}

TEST(Safetensors, OffsetsThatLie) {
  const auto at = [](std::string_view shape, std::string_view offsets) {
    return "{\"x\":{" + entry("F32", shape, offsets) + "}}";
  };
  expect_refused({
      {at("[100]", "[0,400]"),
       {"model.safetensors: tensor 'x' claims bytes 0..400 but the file has 16 bytes of data", "incomplete"}},
      {at("[4]", "[16,0]"), {"data_offsets"}},
      {at("[4]", "[-16,0]"), {"data_offsets"}},
      {at("[4]", "[0]"), {"data_offsets"}},
      {at("[4]", "[0,16,32]"), {"data_offsets"}},
      {at("[4]", "[0,16.0]"), {"data_offsets"}},
      {at("[4]", "[0,18446744073709551616]"), {"data_offsets"}},
      {at("[4]", "[18446744073709551600,18446744073709551615]"), {"takes 16 bytes"}},
      {at("[3]", "[4,16]"), {"gap"}},
      {at("[3]", "[0,12]"), {"4 bytes after its last tensor"}},
      {at("[1]", "[18446744073709551608,18446744073709551612]"), {"incomplete"}},
  });
  const auto two = [](std::string_view a, std::string_view b) {
    return "{\"a\":{" + std::string(a) + "},\"b\":{" + std::string(b) + "}}";
  };
  expect_refused({
      {two(entry("F32", "[2]", "[0,8]"), entry("F32", "[3]", "[4,16]")), {"tensor 'b'", "overlap"}},
      {two(entry("F32", "[4]", "[0,16]"), entry("F32", "[4]", "[0,16]")), {"overlap"}},
      {two(entry("F32", "[1]", "[0,4]"), entry("F32", "[2]", "[8,16]")), {"tensor 'b'", "gap"}},
      {two(entry("U8", "[2]", "[0,2]"), entry("F32", "[3]", "[2,14]")), {"tensor 'b'", "multiple of its element size"}},
  });
}

TEST(Safetensors, HeaderLengthsThatLie) {
  const std::string good = safetensors_bytes({test::random_tensor("a", DType::kF32, {4}, 1)});
  const auto with_length = [&good](uint64_t length) { return test::bytes_of(length) + good.substr(8); };
  expect_error(read(with_length(UINT64_MAX)), {"header of 18446744073709551615 bytes", "limit"});
  expect_error(read(with_length(100'000'001)), {"limit"});
  expect_error(read(with_length(good.size() - 7)), {"incomplete"});
  expect_error(read(with_length(0)), {"not valid JSON"});
  expect_error(read(with_length(1)), {"not valid JSON"});
}

TEST(Safetensors, IndexNamesPlainFiles) {
  const auto good = read_safetensors_index(
      R"({"metadata":{"total_size":1},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})", "index");
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good.value().at("b"), "m-2.safetensors");
  const std::pair<std::string, std::string_view> lies[] = {
      {R"({})", "weight_map"},
      {R"({"weight_map":[]})", "weight_map"},
      {R"({"weight_map":{}})", "weight_map"},
      {R"({"weight_map":{"a":1}})", "no string"},
      {R"({"weight_map":{"a":"../../etc/passwd"}})", "not the name of a file beside"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "not the name of a file beside"},
      {R"({"weight_map":{"a":".."}})", "not the name of a file beside"},
      {R"({"weight_map":{"a":""}})", "not the name of a file beside"},
      {R"({"weight_map":{"a":"x\u0000y"}})", "not the name of a file beside"},
      {R"({"weight_map":{"a":"x\ny"}})", "not the name of a file beside"},
  };
  for (const auto& [text, words] : lies) expect_error(read_safetensors_index(text, "index"), {"index", words});
}

}  // namespace
}  // namespace eadem::weights
