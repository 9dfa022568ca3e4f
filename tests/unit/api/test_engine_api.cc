// The public API over a tiny model without a tokenizer: answers, n, errors, identity, counters.
#include <gtest/gtest.h>

#include <fstream>

#include "eadem/engine.h"
#include "support/tiny_llama.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace eadem {
namespace {

struct Opened {
  explicit Opened(EngineOptions options = {}) {
    testing::write_tiny_llama(folder.path());
    options.model = folder.path().string();
    options.threads = 2;
    auto result = Engine::open(options);
    if (!result.ok()) throw std::runtime_error(result.error().message);
    engine = std::make_unique<Engine>(std::move(result).value());
  }
  test::TempDirectory folder;
  std::unique_ptr<Engine> engine;
};

Request request_of(int tokens, int n = 1) {
  Request request;
  for (int i = 0; i < 20; ++i) request.prompt_token_ids.push_back(i * 11 % 211);
  request.sampling.max_tokens = tokens;
  request.sampling.seed = 7;
  request.sampling.n = n;
  request.sampling.logprobs = 3;
  return request;
}

bool same(const Completion& a, const Completion& b) {
  if (a.tokens.size() != b.tokens.size() || a.kv_hash != b.kv_hash) return false;
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    if (a.tokens[i].token != b.tokens[i].token) return false;
    if (std::memcmp(&a.tokens[i].logprob, &b.tokens[i].logprob, sizeof(float)) != 0) return false;
  }
  return true;
}

TEST(EngineApi, EachOfNAnswersIsItsOwnRequest) {
  Opened opened({.kv_hash = true});
  const auto together = opened.engine->generate(request_of(12, 3));
  ASSERT_TRUE(together.ok()) << together.error().message;
  ASSERT_EQ(together.value().size(), 3u);
  for (const Completion& answer : together.value()) {
    Request alone = request_of(12);
    alone.sampling.seed = answer.seed;
    const auto single = opened.engine->generate(alone);
    ASSERT_TRUE(single.ok());
    EXPECT_TRUE(same(answer, single.value()[0])) << answer.index;
    EXPECT_FALSE(answer.kv_hash.empty());
  }
  EXPECT_FALSE(same(together.value()[0], together.value()[1])) << "the control: other seeds draw other tokens";
  EXPECT_GT(opened.engine->counters().mixed_steps, 0u);
  EXPECT_GT(opened.engine->counters().kernel_calls, 0u);
}

TEST(EngineApi, AnUnseededAnswerTellsItsSeedAndCanBeHadAgain) {
  Opened opened;
  Request request = request_of(8);
  request.sampling.seed.reset();
  const auto first = opened.engine->generate(request);
  ASSERT_TRUE(first.ok());
  EXPECT_LT(first.value()[0].seed, uint64_t{1} << 53);
  request.sampling.seed = first.value()[0].seed;
  EXPECT_TRUE(same(first.value()[0], opened.engine->generate(request).value()[0]));
}

TEST(EngineApi, APooledRequestGetsAnEmbeddingAndNoToken) {
  Opened opened;
  std::vector<std::vector<float>> seen;
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast}) {
    Request request = request_of(0, 3);  // sampling does not matter
    request.pooling = pooling;
    const auto answers = opened.engine->generate(request);
    ASSERT_TRUE(answers.ok()) << answers.error().message;
    ASSERT_EQ(answers.value().size(), 1u);
    EXPECT_TRUE(answers.value()[0].tokens.empty());
    EXPECT_EQ(answers.value()[0].embedding.size(), static_cast<size_t>(opened.engine->info().hidden));
    seen.push_back(answers.value()[0].embedding);
  }
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_TRUE(opened.engine->generate(request_of(3)).value()[0].embedding.empty());
}

TEST(EngineApi, CallbacksSeeEveryTokenAndMayEndAnAnswer) {
  Opened opened;
  int seen = 0;
  Callbacks callbacks;
  callbacks.on_token = [&](int, const SampledToken&, std::string_view) { return ++seen < 5; };
  Request request = request_of(12);
  request.sampling.ignore_eos = true;
  const auto answer = opened.engine->generate(request, callbacks);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(seen, 5);
  EXPECT_EQ(answer.value()[0].tokens.size(), 5u);
  EXPECT_EQ(answer.value()[0].finish_reason, FinishReason::kCancelled);
}

TEST(EngineApi, CancelEndsOneRequestAlone) {
  Opened opened;
  int done = 0;
  std::vector<Completion> kept;
  const auto gone = opened.engine->submit(request_of(40), {{}, [&](auto) { ++done; }});
  const auto stays =
      opened.engine->submit(request_of(12), {{}, [&](auto answers) { kept = std::move(answers), ++done; }});
  ASSERT_TRUE(gone.ok() && stays.ok());
  for (int i = 0; i < 3; ++i) opened.engine->step();
  opened.engine->cancel(gone.value());
  while (opened.engine->step()) {
  }
  EXPECT_EQ(done, 2);
  EXPECT_TRUE(same(kept.at(0), opened.engine->generate(request_of(12)).value()[0]));
}

TEST(EngineApi, ErrorsNameWhatIsWrong) {
  Opened opened;
  const auto error_of = [&](auto change) {
    Request request = request_of(4);
    change(request);
    const auto result = opened.engine->generate(request);
    return result.ok() ? std::string("accepted") : result.error().message;
  };
  const auto expect = [&](const std::string& word, auto change) {
    const std::string message = error_of(change);
    EXPECT_NE(message.find(word), std::string::npos) << message;
  };
  expect("accepted", [](Request&) {});
  expect("prompt", [](Request& r) { r.prompt_token_ids.clear(); });
  expect("token_ids holds 211", [](Request& r) { r.prompt_token_ids[3] = 211; });
  expect("temperature", [](Request& r) { r.sampling.temperature = -1; });
  expect("top_p", [](Request& r) { r.sampling.top_p = 1.5f; });
  expect("n is 0", [](Request& r) { r.sampling.n = 0; });
  expect("tokenizer", [](Request& r) { r.sampling.stop = {"x"}; });
  EXPECT_FALSE(opened.engine->tokenize("text").ok());
  EXPECT_FALSE(opened.engine->render_chat("[]").ok());
}

TEST(EngineApi, OptionsThatCannotBeAreRefused) {
  const test::TempDirectory folder;
  testing::write_tiny_llama(folder.path());
  const auto error_of = [&](EngineOptions options) {
    options.model = folder.path().string();
    const auto engine = Engine::open(options);
    return engine.ok() ? std::string("opened") : engine.error().message;
  };
  EXPECT_NE(error_of({.numerics = "fp16"}).find("fp16"), std::string::npos);
  EXPECT_NE(error_of({.isa = "mmx"}).find("mmx"), std::string::npos);
  EXPECT_NE(error_of({.device = "tpu"}).find("tpu"), std::string::npos);
  EXPECT_NE(error_of({.max_batch = 0}).find("max_batch"), std::string::npos);
  EXPECT_EQ(error_of({.isa = "reference"}), "opened");
}

TEST(EngineApi, IdentityChangesWithWhatMayMoveBitsAndWithNothingElse) {
  Opened opened;
  const std::string identity = opened.engine->identity();
  EXPECT_EQ(identity.size(), 64u);
  const auto identity_of = [&](EngineOptions options) {
    options.model = opened.folder.path().string();
    return Engine::open(options).value().identity();
  };
  EXPECT_EQ(identity_of({.isa = "reference", .threads = 3, .max_batch = 5}), identity);
  EXPECT_NE(identity_of({.numerics = "int8"}), identity);
  const test::TempDirectory other;
  testing::write_tiny_llama(other.path(), 2);
  EXPECT_NE(Engine::open({.model = other.path().string()}).value().identity(), identity);
}

// The control says what it is wherever anyone looks, and nobody gets it unasked.
TEST(EngineApi, FreeOrderIsAModeOfItsOwn) {
  Opened contract;
  EXPECT_EQ(contract.engine->info().mode, "contract");
  Opened opened({.mode = "free"});
  EXPECT_EQ(opened.engine->info().mode, "free");
  EXPECT_EQ(opened.engine->info().numerics, "fma32-free");
  EXPECT_TRUE(opened.engine->info().isa.ends_with("-free")) << opened.engine->info().isa;
  EXPECT_NE(opened.engine->identity(), contract.engine->identity());
  ASSERT_TRUE(opened.engine->generate(request_of(5)).ok());
  EXPECT_GT(opened.engine->counters().kernel_calls, 0u);
  const auto error_of = [&](EngineOptions options) {
    options.model = opened.folder.path().string();
    const auto engine = Engine::open(options);
    return engine.ok() ? std::string("opened") : engine.error().message;
  };
  EXPECT_NE(error_of({.numerics = "mma16", .mode = "free"}).find("mma16"), std::string::npos);
  EXPECT_NE(error_of({.numerics = "fma32-free"}).find("--mode free"), std::string::npos);
  EXPECT_NE(error_of({.mode = "free", .isa = "reference"}).find("reference"), std::string::npos);
  // A device is asked for it, not refused: what is missing here is said.
  const std::string without_device = error_of({.numerics = "mma16", .mode = "free", .device = "cuda:999"});
  EXPECT_NE(without_device.find("CUDA"), std::string::npos) << without_device;
  EXPECT_NE(error_of({.mode = "fast"}).find("fast"), std::string::npos);
}

TEST(EngineApi, ATraceHasALineForEachRowLayerAndOp) {
  const test::TempDirectory folder;
  const std::string path = (folder.path() / "trace.jsonl").string();
  {
    Opened opened({.trace_file = path});
    ASSERT_TRUE(opened.engine->generate(request_of(3)).ok());
  }
  std::ifstream file(path);
  int lines = 0, layers = 0;
  for (std::string line; std::getline(file, line); ++lines) layers += line.find("\"layer\":1,") != std::string::npos;
  EXPECT_GT(lines, 20 * 2);
  EXPECT_GT(layers, 20);
}

#if defined(__x86_64__)
// A caller with flush-to-zero, denormals-are-zero and rounding upward: neither the model's tables nor its answers may
// move.
TEST(EngineApi, TheCallersFloatingPointSettingsDoNotReachTheBits) {
  Opened plain({.kv_hash = true});
  Request request = request_of(12);
  request.prompt_token_ids.resize(700, 5);
  const auto want = plain.engine->generate(request);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0xdfc0);
  volatile float one = 1.0f, tiny = 0x1p-30f;
  volatile float sum = one + tiny;  // volatile: computed here, under these settings
  auto strange = Engine::open({.model = plain.folder.path().string(), .threads = 2, .kv_hash = true});
  ASSERT_TRUE(strange.ok());
  const auto got = strange.value().generate(request);
  _mm_setcsr(before);
  EXPECT_GT(sum, 1.0f) << "the control: the settings are in force";
  ASSERT_TRUE(want.ok() && got.ok());
  EXPECT_TRUE(same(want.value()[0], got.value()[0]));
}
#endif

TEST(EngineApi, ListsOfTopLogprobsAreBounded) {
  Opened opened;
  Request request = request_of(1500, 1000);
  request.sampling.logprobs = 200;
  const auto result = opened.engine->generate(request);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("logprobs"), std::string::npos);
}

}  // namespace
}  // namespace eadem
