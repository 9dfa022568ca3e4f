// The gate's own proof: unchanged code passes; a kernel that adds two leaves of a sum in the other order fails, with
// the right first token; the break passes once it is approved, stays listed, and covers nothing else.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "audit/gate.h"
#include "kernels/kernel_set.h"
#include "numerics/fma32.h"
#include "support/tiny_llama.h"

namespace {

using eadem::kernels::KernelSet;
using eadem::kernels::LinearCall;
using eadem::kernels::LinearTile;

std::atomic<bool> swapped{false};
std::atomic<uint64_t> swaps{0};  // outputs whose sum was taken in the other order
const KernelSet* true_set = nullptr;

// Adds the last leaf before the last but one. The reference layout is row-major: [n][k_padded] operands.
float swapped_sum(const LinearCall& call, int64_t row, int64_t n) {
  const int k = call.shape->k_padded, leaf = eadem::numerics::kLeaf;
  const uint16_t* x = call.x.operands + row * k;
  const uint16_t* w = reinterpret_cast<const uint16_t*>(call.weights) + n * k;
  float sum = eadem::numerics::fma32_chain(0.0f, x, w, k - 2 * leaf);
  for (const int at : {k - leaf, k - 2 * leaf}) {
    sum = eadem::numerics::add_f32(sum, eadem::numerics::fma32_leaf(x + at, w + at));
  }
  return sum;
}

// The true kernel, but for that addition, in layers that write their outputs as they are.
void swapped_linear(const LinearCall& call, const LinearTile& tile) {
  true_set->linear(call, tile);
  const auto& shape = *call.shape;
  const bool mine =
      shape.shards == 1 && !call.add_to_y && call.bias == nullptr && shape.numerics == eadem::kernels::Numerics::kFma32;
  if (!mine || !swapped) return;
  for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
    for (int n = tile.panel_begin * eadem::kernels::kPanel;
         n < std::min(tile.panel_end * eadem::kernels::kPanel, shape.n); ++n) {
      float& y = call.y[row * call.y_stride + n];
      const float other = swapped_sum(call, row, n);
      if (std::bit_cast<uint32_t>(other) != std::bit_cast<uint32_t>(y)) ++swaps;
      y = other;
    }
  }
}

}  // namespace

namespace eadem::kernels {

const KernelSet* true_find(std::string_view name) asm(
    "__real__ZN5eadem7kernels15find_kernel_setESt17basic_string_viewIcSt11char_traitsIcEE");
const KernelSet* other_find(std::string_view name) asm(
    "__wrap__ZN5eadem7kernels15find_kernel_setESt17basic_string_viewIcSt11char_traitsIcEE");

const KernelSet* other_find(std::string_view name) {
  const KernelSet* const found = true_find(name);
  if (found == nullptr || name != "reference") return found;
  true_set = found;
  static KernelSet set = *found;
  set.linear = swapped_linear;
  return &set;
}

}  // namespace eadem::kernels

namespace eadem::audit {
namespace {

std::filesystem::path model_folder() {
  return std::filesystem::path(::testing::TempDir()) / ("swapped_addition_model_" + std::to_string(::getpid()));
}

// A small random model whose output rows come in pairs, equal but for one element, 2^-22 in the one and 0 in the other:
// every step's two most likely tokens are a near tie, so that a moved last bit can show as a token.
void make_model() {
  std::filesystem::create_directories(model_folder());
  testing::write_tiny_llama(model_folder());
  const auto path = model_folder() / "model.safetensors";
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto head = nlohmann::json::parse(bytes.substr(8, header)).at("lm_head.weight");
  const auto rows = head.at("shape").at(0).get<size_t>(), columns = head.at("shape").at(1).get<size_t>();
  char* const weights = bytes.data() + 8 + header + head.at("data_offsets").at(0).get<size_t>();
  for (size_t row = 1; row < rows; row += 2) {
    char* const own = weights + row * columns * 2;
    char* const twin = own - columns * 2;
    const size_t at = 2 * (row % columns);
    std::memcpy(own, twin, columns * 2);
    own[at] = static_cast<char>(0x80);  // 2^-22 as bf16, little-endian
    own[at + 1] = 0x34;
    twin[at] = twin[at + 1] = 0;
  }
  std::ofstream(path, std::ios::binary) << bytes;
}

Engine open(int threads = 2) {
  auto engine =
      Engine::open({.model = model_folder().string(), .numerics = "fma32", .isa = "reference", .threads = threads});
  if (!engine.ok()) std::abort();
  return std::move(engine).value();
}

constexpr int kRequests = 48;

Corpus corpus() {
  Corpus made;
  made.name = "swap";
  for (int i = 0; i < kRequests; ++i) {
    const std::string number = std::to_string(i);
    const std::string sampling = i % 3 == 0 ? R"("temperature": 1, "seed": )" + number : R"("temperature": 0)";
    auto request = parse_corpus_line(R"({"id": "r)" + number + R"(", "prompt": [)" + std::to_string(i + 3) + ", 17, " +
                                     std::to_string(2 * i + 5) + R"(, 9], "max_tokens": 24, )" + sampling + "}");
    if (!request.ok()) std::abort();
    made.requests.push_back(std::move(request).value());
  }
  made.digest = "of this test";
  return made;
}

Baseline ask(Engine& engine, const Corpus& asked) {
  std::vector<const CorpusRequest*> requests;
  for (const CorpusRequest& request : asked.requests) requests.push_back(&request);
  return record(engine, asked, requests, 8, [](size_t, size_t) { return true; });
}

Baseline with(bool swap, const Corpus& asked) {
  swapped = swap;
  swaps = 0;
  Engine engine = open();
  EXPECT_EQ(engine.info().isa, "reference");
  Baseline baseline = ask(engine, asked);
  swapped = false;
  return baseline;
}

bool same(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

// The first place where they part, found without the gate: a token before a logprob, as the gate orders them.
std::pair<std::string, size_t> first_difference_of(const RecordedAnswer& a, const RecordedAnswer& b) {
  for (size_t i = 0; i < std::max(a.tokens.size(), b.tokens.size()); ++i) {
    if (i >= a.tokens.size() || i >= b.tokens.size() || a.tokens[i].token != b.tokens[i].token) return {"token", i};
  }
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    if (!same(a.tokens[i].logprob, b.tokens[i].logprob)) return {"logprob", i};
  }
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    for (size_t k = 0; k < a.tokens[i].top.size(); ++k) {
      const TokenLogprob &x = a.tokens[i].top[k], &y = b.tokens[i].top[k];
      if (x.token != y.token || !same(x.logprob, y.logprob)) return {"top_logprobs", i};
    }
  }
  return {"", 0};
}

class SwappedAddition : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    make_model();
    asked_ = new Corpus(corpus());
    was_ = new Baseline(with(false, *asked_));
    is_ = new Baseline(with(true, *asked_));
    swaps_ = swaps;
  }
  static void TearDownTestSuite() {
    delete asked_;
    delete was_;
    delete is_;
    std::filesystem::remove_all(model_folder());
  }
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("swapped_addition_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    baseline_ = (folder_ / "baseline.json").string();
    approvals_ = approvals_path(baseline_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static Corpus* asked_;
  static Baseline *was_, *is_;
  static uint64_t swaps_;
  std::filesystem::path folder_;
  std::string baseline_, approvals_;
};
Corpus* SwappedAddition::asked_ = nullptr;
Baseline* SwappedAddition::was_ = nullptr;
Baseline* SwappedAddition::is_ = nullptr;
uint64_t SwappedAddition::swaps_ = 0;

TEST_F(SwappedAddition, UnchangedCodePasses) {
  const Baseline again = with(false, *asked_);
  EXPECT_EQ(swaps, 0u);
  const GateResult result = compare(*was_, again, {});
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.pass, static_cast<uint64_t>(kRequests));
  EXPECT_EQ(again.digest(), was_->digest());
  for (const AnswerResult& answer : result.answers) {
    ASSERT_TRUE(answer.distance);
    EXPECT_EQ(answer.distance->logprob_max, 0.0);
    EXPECT_EQ(answer.distance->kl_max, 0.0);
    EXPECT_EQ(answer.distance->steps, answer.was.tokens.size());
  }
}

TEST_F(SwappedAddition, FailsWithTheRightFirstToken) {
  ASSERT_GT(swaps_, 0u) << "the swapped sums are all equal: the test proves nothing";
  const GateResult result = compare(*was_, *is_, {});
  EXPECT_FALSE(result.passed);
  EXPECT_FALSE(result.identity_changed);
  EXPECT_NE(summary_of(result).find("under equal identity: this is a bug"), std::string::npos) << summary_of(result);
  uint64_t tokens = 0, drifted = 0;
  for (const AnswerResult& answer : result.answers) {
    const auto [what, step] = first_difference_of(answer.was, answer.is);
    if (what.empty()) {
      EXPECT_EQ(answer.verdict, AnswerVerdict::kPass);
      EXPECT_TRUE(answer.first_difference.is_null()) << answer.first_difference;
      continue;
    }
    ++drifted;
    EXPECT_EQ(answer.verdict, AnswerVerdict::kDrift);
    ASSERT_TRUE(answer.first_difference.is_object());
    EXPECT_EQ(answer.first_difference["what"], what);
    EXPECT_EQ(answer.first_difference["step"], step);
    ASSERT_TRUE(answer.distance);
    EXPECT_GT(answer.distance->logprob_max, 0.0);
    EXPECT_LT(answer.distance->logprob_max, 0.05) << "one swapped addition moves last bits, not values";
    if (what != "token") continue;
    ++tokens;
    EXPECT_EQ(answer.first_difference["expected"], answer.was.tokens[step].token);
    EXPECT_EQ(answer.first_difference["found"], answer.is.tokens[step].token);
    EXPECT_EQ(answer.distance->steps, step + 1);
    EXPECT_GE(answer.tokens_different, 1u);
    ASSERT_TRUE(answer.margin);
    EXPECT_FLOAT_EQ(static_cast<float>(*answer.margin),
                    answer.was.tokens[step].top[0].logprob - answer.was.tokens[step].top[1].logprob);
  }
  EXPECT_GT(tokens, 0u) << "no token flipped: nothing shows that the right one is named";
  EXPECT_EQ(result.drift, drifted);
  RecordProperty("drifted", static_cast<int>(drifted));
  RecordProperty("tokens", static_cast<int>(tokens));
}

TEST_F(SwappedAddition, AFileTellsTheSame) {
  ASSERT_TRUE(write_baseline(baseline_, *was_).ok());
  const auto read = read_baseline(baseline_, *asked_);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().digest(), was_->digest());
  const GateResult direct = compare(*was_, *is_, {}), through = compare(read.value(), *is_, {});
  ASSERT_EQ(direct.answers.size(), through.answers.size());
  for (size_t i = 0; i < direct.answers.size(); ++i) {
    EXPECT_EQ(direct.answers[i].first_difference, through.answers[i].first_difference);
    EXPECT_EQ(direct.answers[i].distance->kl_max, through.answers[i].distance->kl_max);
  }
  Baseline brief = *was_;
  brief.brief = true;
  ASSERT_TRUE(write_baseline(baseline_, brief).ok());
  const auto small = read_baseline(baseline_, *asked_);
  ASSERT_TRUE(small.ok()) << small.error().message;
  EXPECT_EQ(small.value().digest(), was_->digest());
  const GateResult brief_result = compare(small.value(), *is_, {});
  EXPECT_EQ(brief_result.drift, direct.drift);
  EXPECT_EQ(compare(small.value(), *was_, {}).pass, static_cast<uint64_t>(kRequests));
}

TEST_F(SwappedAddition, AChangedLogprobInTheFileIsFound) {
  ASSERT_TRUE(write_baseline(baseline_, *was_).ok());
  std::ifstream file(baseline_);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t at = text.find("\"logprobs\":[-") + 13;
  ASSERT_LT(at, text.size());
  text[at] = text[at] == '9' ? '8' : static_cast<char>(text[at] + 1);
  std::ofstream(baseline_) << text;
  const auto read = read_baseline(baseline_, *asked_);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("logprobs_hash"), std::string::npos) << read.error().message;
}

Approval approval_of(const GateResult& result, const Baseline& was, const Baseline& is) {
  Approval approval{
      .signer = "A. Signer", .date = is.date, .reason = "a test", .from = was.digest(), .to = is.digest()};
  for (const AnswerResult& answer : result.answers) {
    if (answer.verdict != AnswerVerdict::kDrift) continue;
    approval.answers[answer.was.name()] = {answer.was.digest(), answer.is.digest()};
  }
  return approval;
}

TEST_F(SwappedAddition, AnApprovedBreakPassesAndStaysListed) {
  const auto key = contract::SigningKey::generate(), stranger = contract::SigningKey::generate();
  const GateResult before = compare(*was_, *is_, {});
  ASSERT_TRUE(append_approval(approvals_, approval_of(before, *was_, *is_), key).ok());

  auto trusted = read_approvals(approvals_, was_->digest(), {key.verifying_key()});
  ASSERT_TRUE(trusted.ok());
  const GateResult approved = compare(*was_, *is_, trusted.value());
  EXPECT_TRUE(approved.passed);
  EXPECT_EQ(approved.approved, before.drift);
  ASSERT_EQ(approved.approvals.size(), 1u);
  EXPECT_EQ(approved.approvals[0].reason, "a test");
  EXPECT_EQ(approved.approvals[0].key_id, key.key_id());
  // The code as it was passes too, and the approval stays listed.
  const GateResult unchanged = compare(*was_, *was_, trusted.value());
  EXPECT_TRUE(unchanged.passed);
  EXPECT_EQ(unchanged.approvals.size(), 1u);

  // Of nobody, or of somebody else: it does not count.
  for (const auto& keys :
       {std::vector<contract::VerifyingKey>{}, std::vector<contract::VerifyingKey>{stranger.verifying_key()}}) {
    const auto untrusted = read_approvals(approvals_, was_->digest(), keys);
    ASSERT_TRUE(untrusted.ok());
    const GateResult result = compare(*was_, *is_, untrusted.value());
    EXPECT_FALSE(result.passed);
    ASSERT_EQ(result.approvals.size(), 1u);
    EXPECT_NE(result.approvals[0].fault.find("not trusted"), std::string::npos) << result.approvals[0].fault;
  }
  // Of another baseline: it is not even listed.
  EXPECT_TRUE(read_approvals(approvals_, "another", {key.verifying_key()}).value().empty());
}

TEST_F(SwappedAddition, AnApprovalCoversWhatItNamesAlone) {
  const auto key = contract::SigningKey::generate();
  const GateResult before = compare(*was_, *is_, {});
  Approval partial = approval_of(before, *was_, *is_);
  ASSERT_GT(partial.answers.size(), 1u);
  partial.answers.begin()->second.is = std::string(64, '0');  // another answer than is given now
  ASSERT_TRUE(append_approval(approvals_, partial, key).ok());
  const auto approvals = read_approvals(approvals_, was_->digest(), {key.verifying_key()});
  const GateResult result = compare(*was_, *is_, approvals.value());
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.drift, 1u);
  EXPECT_EQ(result.approved, before.drift - 1);
}

TEST_F(SwappedAddition, AChangedApprovalDoesNotCount) {
  const auto key = contract::SigningKey::generate();
  ASSERT_TRUE(append_approval(approvals_, approval_of(compare(*was_, *is_, {}), *was_, *is_), key).ok());
  std::ifstream file(approvals_);
  std::string line;
  std::getline(file, line);
  const size_t at = line.find("\"sig\"");
  ASSERT_NE(at, std::string::npos);
  std::string changed = line;
  char& digit = changed[line.find(':', at) + 10];
  digit = digit == 'A' ? 'B' : 'A';
  std::ofstream(approvals_) << "no envelope\n" << changed << "\n";
  const auto approvals = read_approvals(approvals_, was_->digest(), {key.verifying_key()});
  ASSERT_TRUE(approvals.ok());
  ASSERT_EQ(approvals.value().size(), 2u);
  EXPECT_NE(approvals.value()[0].fault.find("no DSSE envelope"), std::string::npos) << approvals.value()[0].fault;
  EXPECT_NE(approvals.value()[1].fault.find("signature is bad"), std::string::npos) << approvals.value()[1].fault;
  EXPECT_FALSE(compare(*was_, *is_, approvals.value()).passed);
}

}  // namespace
}  // namespace eadem::audit
