// GGUF: a good file is read as it was written; a table of lying ones is refused, each with its own words.
#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>

#include "expect_error.h"
#include "support/model_files.h"
#include "weights/finite.h"
#include "weights/gguf.h"

namespace eadem::weights {
namespace {

using test::bytes_of;
using test::expect_error;
using test::gguf_bytes;
using test::gguf_pair;
using test::gguf_text;

auto read(const std::string& bytes) { return read_gguf(std::as_bytes(std::span(bytes)), "model.gguf"); }

constexpr DType kWeightTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
                                  DType::kQ5_0, DType::kQ5_1, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

TEST(Gguf, ReadsTensorsOfEveryType) {
  std::vector<test::TensorSpec> specs;
  for (const DType dtype : kWeightTypes) {
    specs.push_back(test::random_tensor("w." + std::string(info(dtype).name), dtype, {3, 256}, specs.size()));
  }
  specs.push_back(test::random_tensor("vector", DType::kF32, {5}, 50));
  specs.push_back(test::random_tensor("cube", DType::kBF16, {2, 3, 4}, 51));
  for (const size_t alignment : {32, 64, 8}) {
    const std::string bytes =
        gguf_bytes({gguf_pair("general.alignment", static_cast<uint32_t>(alignment))}, specs, alignment);
    const auto result = read(bytes);
    ASSERT_TRUE(result.ok()) << result.error().message;
    ASSERT_EQ(result.value().tensors.size(), specs.size());
    for (size_t i = 0; i < specs.size(); ++i) {
      const TensorView& view = result.value().tensors[i];
      EXPECT_EQ(view.name, specs[i].name);
      EXPECT_EQ(view.dtype, specs[i].dtype);
      EXPECT_EQ(view.shape, specs[i].shape);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(view.data), view.bytes), specs[i].bytes) << view.name;
      EXPECT_TRUE(check_finite_scales(view).ok());
    }
  }
}

TEST(Gguf, ReadsMetadataOfEveryType) {
  const std::string bytes =
      gguf_bytes({gguf_pair("u8", uint8_t{200}), gguf_pair("i8", int8_t{-3}), gguf_pair("u16", uint16_t{60000}),
                  gguf_pair("i16", int16_t{-300}), gguf_pair("u32", uint32_t{4000000000}), gguf_pair("i32", -70000),
                  gguf_pair("f32", 0.1f), gguf_pair("bool", true), gguf_pair("text", std::string("a\0b", 3)),
                  gguf_pair("u64", std::numeric_limits<uint64_t>::max()), gguf_pair("i64", int64_t{-1} << 40),
                  gguf_pair("f64", 0.1), gguf_pair("texts", std::vector<std::string>{"x", "", "yz"}),
                  gguf_pair("ints", std::vector<int32_t>{1, -2}), gguf_pair("floats", std::vector<float>{0.5f}),
                  gguf_pair("bools", std::vector<bool>{true, false}), gguf_pair("none", std::vector<uint64_t>{})},
                 {});
  const auto result = read(bytes);
  ASSERT_TRUE(result.ok()) << result.error().message;
  const Metadata& m = result.value().metadata;
  EXPECT_EQ(m.get<int64_t>("u8").value(), 200);
  EXPECT_EQ(m.get<int64_t>("i8").value(), -3);
  EXPECT_EQ(m.get<int64_t>("u16").value(), 60000);
  EXPECT_EQ(m.get<int64_t>("i16").value(), -300);
  EXPECT_EQ(m.get<int64_t>("u32").value(), 4000000000);
  EXPECT_EQ(m.get<int64_t>("i32").value(), -70000);
  EXPECT_EQ(m.get<double>("f32").value(), static_cast<double>(0.1f));
  EXPECT_TRUE(m.get<bool>("bool").value());
  EXPECT_EQ(m.get<std::string>("text").value(), std::string("a\0b", 3));
  expect_error(m.get<int64_t>("u64"), {"model.gguf", "'u64'"});
  EXPECT_EQ(m.get<int64_t>("i64").value(), int64_t{-1} << 40);
  EXPECT_EQ(m.get<double>("f64").value(), 0.1);
  EXPECT_EQ((*m.strings("texts"))[2], "yz");
  EXPECT_EQ(m.get<std::vector<int64_t>>("ints").value(), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(m.get<std::vector<double>>("floats").value(), (std::vector<double>{0.5}));
  EXPECT_EQ(m.get<std::vector<bool>>("bools").value(), (std::vector<bool>{true, false}));
  EXPECT_TRUE(m.get<StringList>("none").value().empty());
}

TEST(Gguf, EveryTruncationIsRefused) {
  const std::string bytes = gguf_bytes(
      {gguf_pair("general.architecture", std::string("llama")), gguf_pair("texts", std::vector<std::string>{"ab", "c"}),
       gguf_pair("ints", std::vector<int32_t>{1, 2}), gguf_pair("flags", std::vector<bool>{true, true}),
       gguf_pair("x", true)},
      {test::random_tensor("a", DType::kQ4_0, {2, 32}, 1), test::random_tensor("b", DType::kF32, {8}, 2)});
  ASSERT_TRUE(read(bytes).ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    expect_error(read(cut), {"model.gguf", "the download is incomplete; fetch it again"});
  }
}

// A file with the given counts and body behind its version.
std::string file(uint64_t tensors, uint64_t pairs, const std::string& body, uint32_t version = 3) {
  return "GGUF" + bytes_of(version) + bytes_of(tensors) + bytes_of(pairs) + body;
}

std::string pair_of_type(std::string_view key, uint32_t type, const std::string& payload) {
  return gguf_text(key) + bytes_of(type) + payload;
}

struct Lie {
  std::string bytes;
  std::vector<std::string_view> words;
};

void expect_refused(const std::vector<Lie>& lies) {
  int number = 0;
  for (const Lie& lie : lies) {
    SCOPED_TRACE("lie " + std::to_string(number++));
    expect_error(read(lie.bytes), lie.words);
  }
}

TEST(Gguf, HeadersThatLie) {
  const std::string room(200, '\0');
  expect_refused({
      {"GGML" + room, {"no GGUF file"}},
      {"GGUF" + bytes_of<uint32_t>(1) + room, {"version 1"}},
      {"GGUF" + bytes_of<uint32_t>(4) + room, {"version 4"}},
      {"GGUF" + bytes_of<uint32_t>(3u << 24) + room, {"big-endian"}},
      {file(UINT64_MAX, 0, room), {"18446744073709551615 tensors"}},
      {file(0, UINT64_MAX, room), {"18446744073709551615 keys"}},
      {file(0, 65537, room), {"65537 keys", "limit"}},
      {file((1 << 20) + 1, 0, room), {"1048577 tensors", "limit"}},
      {file(0, 16, room), {"16 keys"}},
      {file(7, 0, room), {"7 tensors"}},
  });
  EXPECT_TRUE(read(file(0, 0, room)).ok());
  EXPECT_TRUE(read(file(0, 0, room, 2)).ok());
}

TEST(Gguf, ValuesThatLie) {
  const std::string room(64, '\0');
  const auto one = [&room](const std::string& pair) { return file(0, 1, pair + room); };
  const auto array = [](uint32_t type, uint64_t count) { return bytes_of(type) + bytes_of(count); };
  expect_refused({
      {one(bytes_of<uint64_t>(70000) + room), {"name of key 0", "limit"}},
      {one(bytes_of<uint64_t>(UINT64_MAX) + room), {"name of key 0", "18446744073709551615"}},
      {one(bytes_of<uint64_t>(500)), {"incomplete"}},
      {one(pair_of_type("k", 13, room)), {"'k'", "unknown type 13"}},
      {one(pair_of_type("k", UINT32_MAX, room)), {"'k'", "unknown type 4294967295"}},
      {one(pair_of_type("k", 7, "\2")), {"'k'", "boolean of 2"}},
      {one(pair_of_type("k", 8, bytes_of<uint64_t>(UINT64_MAX))), {"'k'"}},
      {one(pair_of_type("k", 8, bytes_of<uint64_t>(65))), {"'k'", "ends inside"}},
      {one(pair_of_type("k", 9, array(0, (1 << 24) + 1))), {"'k'", "16777217 elements", "limit"}},
      {one(pair_of_type("k", 8, bytes_of<uint64_t>((1 << 26) + 1))), {"'k'", "67108865 bytes", "limit"}},
      {one(pair_of_type("k", 9, array(9, 1))), {"'k'", "array of arrays"}},
      {one(pair_of_type("k", 9, array(77, 1))), {"'k'", "unknown type 77"}},
      {one(pair_of_type("k", 9, array(8, UINT64_MAX))), {"'k'", "18446744073709551615 elements"}},
      {one(pair_of_type("k", 9, array(6, uint64_t{1} << 62))), {"'k'", "elements"}},
      {one(pair_of_type("k", 9, array(0, 65))), {"'k'", "65 elements"}},
      {one(pair_of_type("k", 9, array(7, 65))), {"'k'", "65 elements"}},
      {one(pair_of_type("k", 9, array(7, 1)) + "\7"), {"'k'", "boolean of 7"}},
      {one(pair_of_type("k", 9, array(10, 1)) + bytes_of<uint64_t>(UINT64_MAX)), {"'k'", "beyond 63 bits"}},
      {file(0, 2, gguf_pair("k", true) + gguf_pair("k", true)), {"'k'", "twice"}},
      {one(gguf_pair("general.alignment", uint32_t{0})), {"'general.alignment' is 0"}},
      {one(gguf_pair("general.alignment", uint32_t{4})), {"'general.alignment' is 4"}},
      {one(gguf_pair("general.alignment", uint32_t{33})), {"'general.alignment' is 33"}},
      {one(gguf_pair("general.alignment", uint32_t{1} << 31)), {"'general.alignment' is 2147483648"}},
      {one(gguf_pair("general.alignment", -32)), {"'general.alignment' is -32"}},
      {one(gguf_pair("general.alignment", std::string("x"))), {"'general.alignment'", "an integer"}},
  });
}

// A tensor description.
std::string tensor(std::string_view name, const std::vector<int64_t>& inner_first, uint32_t type, uint64_t offset) {
  std::string out = gguf_text(name) + bytes_of(static_cast<uint32_t>(inner_first.size()));
  for (const int64_t dimension : inner_first) out += bytes_of(dimension);
  return out + bytes_of(type) + bytes_of(offset);
}

std::string with_data(uint64_t tensors, std::string descriptions, size_t data = 256) {
  std::string out = file(tensors, 0, descriptions);
  out.resize((out.size() + 31) / 32 * 32 + data, '\0');
  return out;
}

TEST(Gguf, TensorsThatLie) {
  constexpr int64_t kHuge = int64_t{1} << 32;
  expect_refused({
      {with_data(1, tensor("x", {}, 0, 0)), {"tensor 'x'", "0 dimensions"}},
      {with_data(1, tensor("x", {1, 1, 1, 1, 1}, 0, 0)), {"5 dimensions"}},
      {with_data(1, gguf_text("x") + bytes_of<uint32_t>(UINT32_MAX) + std::string(64, '\0')),
       {"4294967295 dimensions"}},
      {with_data(1, tensor("x", {0}, 0, 0)), {"dimension below 1"}},
      {with_data(1, tensor("x", {-4}, 0, 0)), {"dimension below 1"}},
      {with_data(1, tensor("x", {kHuge, kHuge}, 0, 0)), {"too large"}},
      {with_data(1, tensor("x", {kHuge, kHuge, 4}, 0, 0)), {"too large"}},
      {with_data(1, tensor("x", {std::numeric_limits<int64_t>::max()}, 0, 0)), {"too large"}},
      {with_data(1, tensor("x", {33}, 2, 0)), {"33 elements", "Q4_0"}},
      {with_data(1, tensor("x", {32, 8}, 12, 0)), {"32 elements", "256", "Q4_K"}},
      {with_data(1, tensor("x", {65}, 0, 0)),
       {"tensor 'x' claims 260 bytes from byte 0 but the file has 256 bytes", "incomplete"}},
      {with_data(1, tensor("x", {1}, 0, 288)), {"from byte 288", "incomplete"}},
      {with_data(1, tensor("x", {1}, 0, UINT64_MAX - 31)), {"incomplete"}},
      {with_data(1, tensor("x", {1}, 0, 4)), {"multiple of the alignment of 32"}},
      {with_data(2, tensor("x", {16}, 0, 0) + tensor("y", {16}, 0, 32)), {"'x'", "'y'", "overlap"}},
      {with_data(2, tensor("x", {8}, 0, 0) + tensor("y", {8}, 0, 0)), {"overlap"}},
      {with_data(2, tensor("x", {8}, 0, 0) + tensor("x", {8}, 0, 32)), {"'x'", "twice"}},
      {with_data(1, tensor(std::string(300, 'n'), {8}, 0, 0)), {"name of tensor 0", "limit"}},
      {with_data(1, tensor("bad\nname", {0}, 0, 0)), {"bad\\x0aname"}},
  });
}

TEST(Gguf, TypesThatAreNotSupportedAreNamed) {
  const std::pair<uint32_t, std::string_view> types[] = {
      {9, "Q8_1"},     {10, "Q2_K"},  {11, "Q3_K"},    {15, "Q8_K"},      {16, "IQ2_XXS"},      {17, "IQ2_XS"},
      {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"},  {21, "IQ3_S"},     {22, "IQ2_S"},        {23, "IQ4_XS"},
      {24, "I8"},      {25, "I16"},   {28, "F64"},     {29, "IQ1_M"},     {34, "TQ1_0"},        {35, "TQ2_0"},
      {39, "MXFP4"},   {40, "NVFP4"}, {4, "number 4"}, {31, "number 31"}, {1000, "number 1000"}};
  for (const auto& [type, name] : types) {
    expect_refused({{with_data(1, tensor("x", {256}, type, 0), 4096),
                     {"model.gguf: tensor 'x'", "the type " + std::string(name) + ",", "not supported"}}});
  }
}

TEST(Gguf, ScalesThatAreNotFiniteAreFound) {
  for (const DType dtype : kWeightTypes) {
    test::TensorSpec spec = test::random_tensor("w", dtype, {2, 512}, 9);
    const auto check = [&spec] {
      const TensorView view{spec.name, spec.dtype, spec.shape, reinterpret_cast<const std::byte*>(spec.bytes.data()),
                            spec.bytes.size()};
      return check_finite_scales(view);
    };
    EXPECT_TRUE(check().ok());
    if (info(dtype).block == 1) continue;
    const size_t last = spec.bytes.size() - info(dtype).bytes;
    const size_t field = dtype == DType::kQ6_K                                                     ? 208
                         : dtype == DType::kQ8_0 || dtype == DType::kQ4_0 || dtype == DType::kQ5_0 ? 0
                                                                                                   : 2;
    for (const auto bad : std::initializer_list<uint16_t>{0x7c00, 0xfc00, 0x7e01, 0xffff}) {
      const std::string before = spec.bytes;
      spec.bytes.replace(last + field, 2, bytes_of(bad));
      expect_error(check(), {"'w'", "block " + std::to_string(2 * 512 / info(dtype).block - 1), "not a finite number"});
      spec.bytes = before;
    }
  }
}

TEST(Gguf, NamesOfParts) {
  const auto name = parse_split_name("a-b-00002-of-00013.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->prefix, "a-b");
  EXPECT_EQ(name->number, 2);
  EXPECT_EQ(name->count, 13);
  EXPECT_EQ(name->part(1), "a-b-00001-of-00013.gguf");
  for (const char* other :
       {"model.gguf", "-00001-of-00002.gguf", "a-00003-of-00002.gguf", "a-00000-of-00002.gguf", "a-0001-of-0002.gguf",
        "a-00001-of-00002.safetensors", "a--0001-of-00002.gguf", "a-00001-of-0000x.gguf", ""}) {
    EXPECT_FALSE(parse_split_name(other)) << other;
  }
}

}  // namespace
}  // namespace eadem::weights
