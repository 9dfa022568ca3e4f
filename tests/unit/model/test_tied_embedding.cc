// A tied head: the embedding is read from its packed rows, with the bits of the table in the file, which is not read
// again; where the packed rows are not the file's, it is the table that is read.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "model/model.h"
#include "numerics/formats.h"
#include "numerics/operand.h"
#include "support/model_files.h"

namespace eadem::model {
namespace {

using kernels::KernelSet;
using numerics::Numerics;
using test::TensorSpec;

constexpr int kHeads = 4, kKvHeads = 2, kHead = 16, kMlp = 96, kVocab = 50, kRows = 70;

// A kernel set of which one op is counted, and reads another row on demand.
const KernelSet* counted = nullptr;
std::atomic<int> rows_unpacked{0}, row_error{0};

void count_unpack_row(const kernels::LinearShape& shape, int n, const std::byte* weights, uint16_t* operands) {
  ++rows_unpacked;
  counted->unpack_row(shape, (n + row_error) % shape.n, weights, operands);
}

KernelSet counting(const KernelSet& set) {
  counted = &set;
  KernelSet copy = set;
  copy.unpack_row = count_unpack_row;
  return copy;
}

TensorSpec table_of(DType dtype, int hidden) {
  return test::random_tensor("token_embd.weight", dtype, {kVocab, hidden}, 99, 0.3f);
}

// One layer, its head tied, or a copy of the table.
std::string model_bytes(DType dtype, int hidden, bool tied) {
  std::vector<TensorSpec> tensors{table_of(dtype, hidden)};
  uint64_t seed = 1;
  const auto weight = [&](const char* name, Shape shape) {
    tensors.push_back(test::random_tensor(name, DType::kF32, std::move(shape), seed++, 0.3f));
  };
  const auto norm = [&](const char* name) {
    tensors.push_back(test::f32_tensor(name, {hidden}, std::vector<float>(static_cast<size_t>(hidden), 0.875f)));
  };
  norm("blk.0.attn_norm.weight"), norm("blk.0.ffn_norm.weight"), norm("output_norm.weight");
  weight("blk.0.attn_q.weight", {kHeads * kHead, hidden});
  weight("blk.0.attn_k.weight", {kKvHeads * kHead, hidden});
  weight("blk.0.attn_v.weight", {kKvHeads * kHead, hidden});
  weight("blk.0.attn_output.weight", {hidden, kHeads * kHead});
  weight("blk.0.ffn_gate.weight", {kMlp, hidden});
  weight("blk.0.ffn_up.weight", {kMlp, hidden});
  weight("blk.0.ffn_down.weight", {hidden, kMlp});
  if (!tied) {
    tensors.push_back(table_of(dtype, hidden));
    tensors.back().name = "output.weight";
  }
  const auto size = static_cast<uint32_t>(hidden);
  return test::gguf_bytes(
      {test::gguf_pair("general.architecture", std::string("llama")), test::gguf_pair("llama.embedding_length", size),
       test::gguf_pair("llama.block_count", uint32_t{1}),
       test::gguf_pair("llama.attention.head_count", uint32_t{kHeads}),
       test::gguf_pair("llama.attention.head_count_kv", uint32_t{kKvHeads}),
       test::gguf_pair("llama.attention.key_length", uint32_t{kHead}),
       test::gguf_pair("llama.attention.value_length", uint32_t{kHead}),
       test::gguf_pair("llama.rope.dimension_count", uint32_t{kHead}),
       test::gguf_pair("llama.feed_forward_length", uint32_t{kMlp}),
       test::gguf_pair("llama.attention.layer_norm_rms_epsilon", 1e-5f),
       test::gguf_pair("llama.rope.freq_base", 10000.0f), test::gguf_pair("llama.context_length", uint32_t{256})},
      tensors);
}

// The rows that entered the residual stream.
class EmbeddingTrace : public TraceSink {
 public:
  void record(const Batch&, int, int, std::string_view op, std::span<const std::byte> bytes) override {
    if (op != "embedding") return;
    const auto* const from = reinterpret_cast<const float*>(bytes.data());
    rows.insert(rows.end(), from, from + bytes.size() / sizeof(float));
  }
  std::vector<float> rows;
};

int32_t token_at(int row) { return row * 7 % kVocab; }

std::vector<float> decoded_rows(DType dtype, int hidden) {
  const TensorSpec table = table_of(dtype, hidden);
  const size_t row_bytes = table.bytes.size() / kVocab;
  std::vector<float> rows, values(static_cast<size_t>(hidden));
  for (int row = 0; row < kRows; ++row) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(table.bytes.data());
    numerics::decode_row(dtype, bytes + static_cast<size_t>(token_at(row)) * row_bytes, hidden, values.data());
    for (const float x : values) rows.push_back(numerics::operand_value(numerics::bf16_operand(x)));
  }
  return rows;
}

struct Result {
  std::vector<float> embedded, logits;
  int unpacked = 0;
};

// A model that is loaded from `bytes`; before it runs, the table's bytes in the file become zero if `erase` is set.
Result run(const std::string& bytes, const std::string& table, const KernelSet& set, Numerics numerics, bool erase) {
  const test::TempDirectory folder;
  const auto path = folder.write("model.gguf", bytes);
  auto checkpoint = weights::Checkpoint::open(path);
  if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
  ModelOptions options;
  options.numerics = numerics, options.kernels = &set, options.threads = 2;
  auto model = Model::load(checkpoint.value(), options);
  if (!model.ok()) throw std::runtime_error(model.error().message);
  if (erase) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(bytes.find(table)));
    file << std::string(table.size(), '\0');
  }
  auto kv = KvPool::create(set, model.value()->attention_shape(), 1, 2, nullptr);
  const int32_t blocks[] = {1, 0};
  Batch batch;
  batch.tables = {blocks};
  for (int i = 0; i < kRows; ++i) batch.rows.push_back({0, token_at(i), i});
  batch.outputs = {kRows - 1};
  EmbeddingTrace trace;
  rows_unpacked = 0;
  model.value()->forward(batch, kv.value(), &trace);
  Result result;
  result.unpacked = rows_unpacked;
  result.embedded = trace.rows;
  result.logits.resize(kVocab);
  model.value()->logits(0, 1, result.logits.data());
  return result;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Case {
  DType dtype;
  int hidden;
  Numerics numerics;
};

// True where the packed head holds the file's own values.
bool exact(const Case& c) { return c.numerics != Numerics::kInt8 || numerics::int8_native(c.dtype); }

void expect_read_from_the_head(const KernelSet& set, const Case& c) {
  SCOPED_TRACE(std::string(set.name) + " " + std::string(info(c.dtype).name) + " " +
               std::string(numerics::short_name(c.numerics)) + " " + std::to_string(c.hidden));
  const KernelSet counter = counting(set);
  const std::string table = table_of(c.dtype, c.hidden).bytes;
  const std::string tied = model_bytes(c.dtype, c.hidden, true), separate = model_bytes(c.dtype, c.hidden, false);
  const std::vector<float> expected = decoded_rows(c.dtype, c.hidden);

  const Result from_head = run(tied, table, counter, c.numerics, false);
  EXPECT_EQ(from_head.unpacked, exact(c) ? kRows : 0);
  EXPECT_TRUE(same(from_head.embedded, expected));
  const Result from_table = run(separate, table, counter, c.numerics, false);
  EXPECT_EQ(from_table.unpacked, 0);
  EXPECT_TRUE(same(from_table.embedded, expected));
  EXPECT_TRUE(same(from_head.logits, from_table.logits));

  // The file's table is not read again; the control: one that is tells.
  EXPECT_EQ(same(run(tied, table, counter, c.numerics, true).logits, from_table.logits), exact(c));
  EXPECT_FALSE(same(run(separate, table, counter, c.numerics, true).logits, from_table.logits));
  // The control of the counter and of all equality: a wrong row of the head is seen where that is read.
  row_error = 1;
  EXPECT_EQ(same(run(tied, table, counter, c.numerics, false).logits, from_table.logits), !exact(c));
  row_error = 0;
}

TEST(TiedEmbedding, IsReadFromThePackedHeadWithTheTablesBits) {
  const Case cases[] = {
      {DType::kBF16, 72, Numerics::kFma32}, {DType::kBF16, 72, Numerics::kMma16}, {DType::kF16, 64, Numerics::kFma32},
      {DType::kQ4_1, 64, Numerics::kFma32}, {DType::kQ8_0, 64, Numerics::kInt8},  {DType::kQ4_0, 96, Numerics::kInt8},
      {DType::kQ4_1, 64, Numerics::kInt8},  {DType::kBF16, 64, Numerics::kInt8},  {DType::kQ5_1, 64, Numerics::kInt8},
  };
  int sets = 0;
  for (const KernelSet* set : kernels::all_kernel_sets()) {
    if (!set->supported()) continue;
    ++sets;
    for (const Case& c : cases) expect_read_from_the_head(*set, c);
  }
  EXPECT_GE(sets, 2);
}

}  // namespace
}  // namespace eadem::model
