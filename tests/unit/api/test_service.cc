// A service over a tiny model: what many threads ask is what one would have got alone.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <latch>
#include <thread>

#include "eadem/service.h"
#include "support/tiny_llama.h"

namespace eadem {
namespace {

using namespace std::chrono_literals;

struct Opened {
  explicit Opened(ServiceOptions options = {}) {
    testing::write_tiny_llama(folder.path());
    options.engine.model = folder.path().string();
    options.engine.threads = 2;
    auto result = Service::open(options);
    if (!result.ok()) throw std::runtime_error(result.error().message);
    service = std::move(result).value();
  }
  test::TempDirectory folder;
  std::unique_ptr<Service> service;
};

Request request_of(uint64_t seed, int tokens, int prompt = 20) {
  Request request;
  for (int i = 0; i < prompt; ++i) request.prompt_token_ids.push_back(static_cast<int>(seed + i * 11) % 211);
  request.sampling.max_tokens = tokens;
  request.sampling.seed = seed;
  request.sampling.logprobs = 2;
  request.sampling.ignore_eos = true;
  return request;
}

// Follows one request: what was streamed, and how it ended.
struct Followed {
  std::vector<int32_t> streamed;
  std::promise<std::vector<Completion>> promise;
  std::atomic<int> done = 0;

  Callbacks callbacks() {
    Callbacks all;
    all.on_token = [this](int, const SampledToken& token, std::string_view) {
      streamed.push_back(token.token);
      return true;
    };
    all.on_done = [this](std::vector<Completion> answers) {
      if (++done == 1) promise.set_value(std::move(answers));
    };
    return all;
  }
  Completion wait() { return promise.get_future().get().at(0); }
};

std::string bits_of(const Completion& answer) {
  std::string bits;
  for (const SampledToken& token : answer.tokens) {
    bits.append(reinterpret_cast<const char*>(&token.token), sizeof token.token);
    bits.append(reinterpret_cast<const char*>(&token.logprob), sizeof token.logprob);
  }
  return bits;
}

std::string alone(const Opened& opened, const Request& request) {
  EngineOptions options;
  options.model = opened.folder.path().string();
  return bits_of(Engine::open(options).value().generate(request).value().at(0));
}

void wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 30000 && !condition(); ++i) std::this_thread::sleep_for(2ms);
  ASSERT_TRUE(condition());
}

TEST(Service, AnswersFromManyThreadsAreThoseOfTheEngineAlone) {
  Opened opened;
  constexpr int kThreads = 6, kEach = 5;
  std::vector<std::thread> threads;
  std::vector<std::string> bits(kThreads * kEach);
  std::latch all_asked(kThreads);  // the first request goes on when each thread has asked one
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const Request request = request_of(static_cast<uint64_t>(t * kEach + i), 5 + i, 1 + 37 * i);
        EXPECT_TRUE(opened.service->check(request).ok());
        Followed followed;
        Callbacks callbacks = followed.callbacks();
        callbacks.on_start = [&all_asked] { all_asked.wait(); };
        EXPECT_NE(opened.service->submit(request, callbacks).ticket, 0u);
        if (i == 0) all_asked.count_down();
        const Completion answer = followed.wait();
        EXPECT_EQ(followed.streamed.size(), answer.tokens.size());
        bits[static_cast<size_t>(t * kEach + i)] = bits_of(answer);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int k = 0; k < kThreads * kEach; ++k) {
    EXPECT_EQ(bits[k], alone(opened, request_of(static_cast<uint64_t>(k), 5 + k % kEach, 1 + 37 * (k % kEach)))) << k;
  }
  EXPECT_NE(bits[0], bits[kEach]) << "the control: another seed, other bits";
  wait_until([&] { return opened.service->idle(); });
  const ServiceStats stats = opened.service->stats();
  EXPECT_EQ(stats.counters.finished, static_cast<uint64_t>(kThreads * kEach));
  EXPECT_GT(stats.counters.mixed_steps, 0u) << "they ran together";
  EXPECT_EQ(stats.running + stats.waiting + stats.kv_blocks_used, 0);
}

TEST(Service, TheQueueIsBoundedAndDrainingRefuses) {
  ServiceOptions options;
  options.max_waiting = 2;
  options.engine.max_batch = 1;
  Opened opened(options);
  std::atomic<bool> started = false, release = false;
  Followed first;
  Callbacks callbacks = first.callbacks();
  callbacks.on_start = [&] { started = true; };
  callbacks.on_token = [&, tokens = 0](int, const SampledToken&, std::string_view) mutable {
    while (++tokens > 1 && !release) std::this_thread::sleep_for(1ms);
    return true;
  };
  EXPECT_EQ(opened.service->submit(request_of(1, 4), callbacks).admission, Admission::kAccepted);
  wait_until([&] { return started && opened.service->stats().running == 1; });
  Followed waiting[2], refused;
  for (auto& followed : waiting) {
    EXPECT_EQ(opened.service->submit(request_of(2, 4), followed.callbacks()).admission, Admission::kAccepted);
  }
  EXPECT_EQ(opened.service->stats().waiting, 2);
  const Submission full = opened.service->submit(request_of(3, 4), refused.callbacks());
  EXPECT_EQ(full.admission, Admission::kQueueFull);
  EXPECT_EQ(full.ticket, 0u);
  opened.service->drain();
  EXPECT_EQ(opened.service->submit(request_of(3, 4), refused.callbacks()).admission, Admission::kDraining);
  EXPECT_FALSE(opened.service->idle());
  release = true;
  for (auto& followed : waiting) EXPECT_EQ(followed.wait().tokens.size(), 4u);
  wait_until([&] { return opened.service->idle(); });
  EXPECT_EQ(refused.done, 0);
}

TEST(Service, CancelEndsARequestWhereverItIs) {
  ServiceOptions options;
  options.engine.max_batch = 1;
  Opened opened(options);
  Followed running, waiting, kept;
  // The service's thread stands still at the first token until the waiting one is cancelled, and at the fifth until the
  // running one is.
  std::latch first_cancelled(1), both_cancelled(1);
  std::atomic<int> seen = 0;
  Callbacks callbacks = running.callbacks();
  callbacks.on_token = [&](int, const SampledToken&, std::string_view) {
    if (++seen == 1) first_cancelled.wait();
    if (seen == 5) both_cancelled.wait();
    return true;
  };
  const Submission one = opened.service->submit(request_of(1, 1500), callbacks);
  const Submission two = opened.service->submit(request_of(2, 1500), waiting.callbacks());
  const Submission three = opened.service->submit(request_of(3, 6), kept.callbacks());
  opened.service->cancel(two.ticket);
  first_cancelled.count_down();
  const Completion never_ran = waiting.wait();
  EXPECT_EQ(never_ran.finish_reason, FinishReason::kCancelled);
  EXPECT_TRUE(never_ran.tokens.empty());
  wait_until([&] { return seen == 5; });
  opened.service->cancel(one.ticket);
  both_cancelled.count_down();
  const Completion ended = running.wait();
  EXPECT_EQ(ended.finish_reason, FinishReason::kCancelled);
  EXPECT_LT(ended.tokens.size(), 1500u);
  EXPECT_EQ(bits_of(kept.wait()), alone(opened, request_of(3, 6)));
  opened.service->cancel(three.ticket);
  opened.service->cancel(99);
  wait_until([&] { return opened.service->idle(); });
  EXPECT_EQ(opened.service->stats().counters.cancelled, 2u);
  EXPECT_EQ(opened.service->stats().kv_blocks_used, 0);
}

// The tokens of a request that runs into a deadline so far ahead, with another one behind it whose deadline is sooner.
Completion cut_by_deadline(const Opened& opened, std::chrono::milliseconds ahead) {
  Request slow = request_of(1, 2000);
  slow.deadline = std::chrono::steady_clock::now() + ahead;
  Request queued = request_of(2, 8);
  queued.deadline = std::chrono::steady_clock::now() + ahead / 8;
  Followed running, waiting;
  Callbacks callbacks = running.callbacks();
  callbacks.on_token = [pause = ahead / 30](int, const SampledToken&, std::string_view) {
    std::this_thread::sleep_for(pause);
    return true;
  };
  opened.service->submit(slow, callbacks);
  opened.service->submit(queued, waiting.callbacks());
  const Completion late = waiting.wait();
  EXPECT_EQ(late.finish_reason, FinishReason::kTimeout);
  EXPECT_TRUE(late.tokens.empty());
  Completion cut = running.wait();
  EXPECT_EQ(cut.finish_reason, FinishReason::kTimeout);
  return cut;
}

TEST(Service, DeadlinesEndRunningAndWaitingRequestsWithWhatTheyHave) {
  ServiceOptions options;
  options.engine.max_batch = 1;
  Opened opened(options);
  // A busy machine may need longer for a first token.
  Completion cut;
  uint64_t ended = 0;
  for (auto ahead = 150ms; cut.tokens.empty() && ahead < 60s; ahead *= 4, ended += 2) {
    cut = cut_by_deadline(opened, ahead);
  }
  EXPECT_GT(cut.tokens.size(), 0u);
  const std::string whole = alone(opened, request_of(1, 100));
  EXPECT_EQ(bits_of(cut), whole.substr(0, bits_of(cut).size()));
  wait_until([&] { return opened.service->idle(); });
  EXPECT_EQ(opened.service->stats().counters.timed_out, ended);
}

TEST(Service, ARequestThatWasNotCheckedEndsInItsError) {
  Opened opened;
  Request request = request_of(1, 4);
  request.sampling.top_p = 2;
  EXPECT_NE(opened.service->check(request).error().message.find("top_p"), std::string::npos);
  Followed followed;
  opened.service->submit(request, followed.callbacks());
  const Completion answer = followed.wait();
  EXPECT_EQ(answer.finish_reason, FinishReason::kError);
  EXPECT_NE(answer.error.find("top_p"), std::string::npos);
}

TEST(Service, CallbacksMaySubmitAndCancel) {
  Opened opened;
  Followed next, victim;
  std::latch both_asked(1);
  Callbacks slow = victim.callbacks();
  slow.on_token = [&](int, const SampledToken&, std::string_view) {
    both_asked.wait();
    return true;
  };
  const Submission long_one = opened.service->submit(request_of(2, 1500), slow);
  Callbacks callbacks;
  callbacks.on_token = [&](int, const SampledToken&, std::string_view) {
    opened.service->cancel(long_one.ticket);
    return true;
  };
  callbacks.on_done = [&](std::vector<Completion>) { opened.service->submit(request_of(3, 4), next.callbacks()); };
  opened.service->submit(request_of(1, 3), callbacks);
  both_asked.count_down();
  EXPECT_EQ(next.wait().tokens.size(), 4u);
  EXPECT_EQ(victim.wait().finish_reason, FinishReason::kCancelled);
}

TEST(Service, DestructionEndsEverything) {
  std::vector<std::unique_ptr<Followed>> all;
  {
    ServiceOptions options;
    options.engine.max_batch = 2;
    Opened opened(options);
    for (uint64_t i = 0; i < 12; ++i) {
      all.push_back(std::make_unique<Followed>());
      Callbacks callbacks = all.back()->callbacks();
      callbacks.on_token = [](int, const SampledToken&, std::string_view) {
        std::this_thread::sleep_for(5ms);  // none is through before the service goes
        return true;
      };
      opened.service->submit(request_of(i, 1500), callbacks);
    }
  }
  for (const auto& followed : all) {
    EXPECT_EQ(followed->done, 1);
    EXPECT_EQ(followed->wait().finish_reason, FinishReason::kCancelled);
  }
}

// Threads that submit, cancel and read statistics, all at once: run under a thread sanitizer.
TEST(Service, AStormOfThreads) {
  ServiceOptions options;
  options.max_waiting = 8;
  options.engine.max_batch = 4;
  options.engine.kv_blocks = 40;
  options.engine.force_preempt = 3;
  Opened opened(options);
  std::atomic<int> asked = 0, accepted = 0, refused = 0, done = 0;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 25; ++i) {
        Request request = request_of(t * 100 + i, 4 + static_cast<int>(i % 7), 1 + static_cast<int>(i * 13 % 90));
        request.priority = static_cast<int>(t % 3);
        if (i % 5 == 4) request.deadline = std::chrono::steady_clock::now() + 3ms;
        if (!opened.service->check(request).ok()) continue;
        Callbacks callbacks;
        callbacks.on_done = [&](std::vector<Completion>) { ++done; };
        // The first few come again until they are taken, so that a slow engine is asked enough.
        Submission submission;
        do {
          if (submission.admission != Admission::kAccepted) std::this_thread::sleep_for(1ms);
          submission = opened.service->submit(request, callbacks);
          ++asked;
          ++(submission.admission == Admission::kAccepted ? accepted : refused);
        } while (i < 4 && submission.admission == Admission::kQueueFull);
        if (i % 3 == 0) opened.service->cancel(submission.ticket);
        if (i % 4 == 0) std::this_thread::sleep_for(1ms);
        const ServiceStats stats = opened.service->stats();
        EXPECT_LE(stats.running, 4);
        EXPECT_LE(stats.kv_blocks_used, stats.kv_blocks);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  opened.service->drain();
  wait_until([&] { return opened.service->idle(); });
  EXPECT_EQ(done, accepted);
  EXPECT_EQ(accepted + refused, asked);
  EXPECT_GE(asked, 200);
  EXPECT_GE(accepted, 8 * 4);
  EXPECT_EQ(opened.service->stats().kv_blocks_used, 0);
}

}  // namespace
}  // namespace eadem
