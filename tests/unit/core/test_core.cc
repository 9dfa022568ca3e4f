// The foundation: SHA-256, buffers, mapped files, the pool and the floating-point environment of its workers.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <fstream>
#include <thread>

#include "core/buffer.h"
#include "core/fp_env.h"
#include "core/mapped_file.h"
#include "core/sha256.h"
#include "core/thread_pool.h"
#include "support/model_files.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace eadem {
namespace {

std::string sha256(const std::string& text, size_t piece) {
  Sha256 hash;
  for (size_t at = 0; at < text.size(); at += piece) {
    const std::string_view part = std::string_view(text).substr(at, piece);
    hash.update(std::as_bytes(std::span(part.data(), part.size())));
  }
  return hash.hex();
}

// Known answers of FIPS 180-4 and of Python's hashlib.
TEST(Sha256, KnownAnswersWhateverThePieces) {
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{64}, size_t{1000}}) {
    EXPECT_EQ(sha256("", piece), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256("abc", piece), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256(std::string(55, 'a'), piece), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    EXPECT_EQ(sha256(std::string(56, 'a'), piece), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
    EXPECT_EQ(sha256(std::string(200, 'a'), piece), "c2a908d98f5df987ade41b5fce213067efbcc21ef2240212a41e54b5e7c28ae5");
  }
  EXPECT_NE(sha256("abd", 3), sha256("abc", 3));
}

TEST(Buffer, IsAlignedAndZeroFilled) {
  auto buffer = Buffer::allocate(100000, "a test");
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.value().data()) % 64, 0u);
  for (size_t i = 0; i < buffer.value().size(); ++i) ASSERT_EQ(buffer.value().as<uint8_t>()[i], 0);
}

// Small buffers share pages: what one gives back must not take its neighbours' contents along, nor come back to a new
// one with its own.
TEST(Buffer, SmallOnesShareMemoryAndNothingElse) {
  std::vector<Buffer> buffers;
  const auto make = [&](size_t bytes) { buffers.push_back(std::move(Buffer::allocate(bytes, "a test")).value()); };
  for (size_t i = 0; i < 200; ++i) {
    make(1 + i * 997 % 50000);
    for (size_t j = 0; j < buffers.back().size(); ++j) ASSERT_EQ(buffers.back().as<uint8_t>()[j], 0) << i;
    memset(buffers.back().data(), static_cast<int>(i + 1), buffers.back().size());
  }
  for (size_t i = 0; i < 200; i += 3) buffers[i] = Buffer();
  for (size_t i = 0; i < 200; ++i) {
    for (size_t j = 0; j < buffers[i].size(); ++j) ASSERT_EQ(buffers[i].as<uint8_t>()[j], i + 1) << i;
  }
  buffers.clear();
  make(size_t{20} << 20);  // pages of its own
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers[0].data()) % (size_t{2} << 20), 0u);
  EXPECT_EQ(buffers[0].as<uint8_t>()[buffers[0].size() - 1], 0);
}

TEST(Buffer, MoreThanTheMachineHasIsAnError) {
  const auto buffer = Buffer::allocate(size_t{1} << 62, "the KV pool");
  ASSERT_FALSE(buffer.ok());
  EXPECT_NE(buffer.error().message.find("the KV pool"), std::string::npos);
}

TEST(MappedFile, ReadsAndRefuses) {
  const test::TempDirectory folder;
  test::write_file(folder.path() / "full", "twelve bytes");
  test::write_file(folder.path() / "empty", "");
  auto full = MappedFile::open(folder.path() / "full");
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full.value().size(), 12u);
  EXPECT_EQ(static_cast<char>(full.value().bytes()[11]), 's');
  const auto empty = MappedFile::open(folder.path() / "empty");
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty.value().size(), 0u);
  EXPECT_FALSE(MappedFile::open(folder.path() / "absent").ok());
  EXPECT_FALSE(MappedFile::open(folder.path()).ok());
}

TEST(ThreadPool, RunsEachTaskOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (const int count : {0, 1, 2, 5, 100}) {
      for (int round = 0; round < 50; ++round) {
        std::vector<std::atomic<int>> ran(static_cast<size_t>(count));
        pool.run(count, [&](int index, int worker) {
          ASSERT_GE(worker, 0);
          ASSERT_LT(worker, threads);
          ++ran[static_cast<size_t>(index)];
        });
        for (const auto& times : ran) ASSERT_EQ(times, 1);
      }
    }
  }
}

// Workers that sleep are woken, a caller that sleeps while a worker is late likewise, and who sleeps takes no time.
TEST(ThreadPool, WakesWhoSleeps) {
  using std::chrono::milliseconds;
  ThreadPool pool(3);
  for (const int pause : {0, 1, 3, 20}) {
    for (int round = 0; round < 5; ++round) {
      std::this_thread::sleep_for(milliseconds(pause));
      std::atomic<int> ran{0}, by_workers{0};
      pool.run(3, [&](int, int worker) {
        ++ran;
        if (worker != 0) ++by_workers;
        while (ran < 3) std::this_thread::yield();  // each task needs a thread of its own
        if (worker == 1) std::this_thread::sleep_for(milliseconds(pause));
      });
      ASSERT_EQ(ran, 3);
      ASSERT_EQ(by_workers, 2);
    }
  }
  std::this_thread::sleep_for(milliseconds(100));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 20) << "workers without work do not sleep";
}

TEST(ThreadPool, AnExceptionOfATaskReachesTheCallerAndThePoolGoesOn) {
  ThreadPool pool(3);
  for (int round = 0; round < 50; ++round) {
    EXPECT_THROW(pool.run(40,
                          [](int index, int) {
                            if (index == 17) throw std::bad_alloc();
                          }),
                 std::bad_alloc);
    std::atomic<int> ran{0};
    pool.run(40, [&](int, int) { ++ran; });
    ASSERT_EQ(ran, 40);
  }
}

#if defined(__x86_64__)
// A caller with flush-to-zero, denormals-are-zero and another rounding mode must not reach the bits, and gets its
// settings back.
TEST(FpEnvironment, WorkersIgnoreTheCallersSettings) {
  ThreadPool pool(3);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0xffc0);
  const unsigned strange = _mm_getcsr() & 0xffc0;
  EXPECT_FALSE(FpEnvironment::is_contract());
  std::atomic<int> contract{0};
  volatile float tiny = 0x1p-126f;
  std::atomic<int> gradual{0};
  pool.run(64, [&](int, int) {
    if (FpEnvironment::is_contract()) ++contract;
    if (tiny * 0.5f != 0.0f) ++gradual;
  });
  const unsigned after = _mm_getcsr() & 0xffc0;
  const float flushed = tiny * 0.5f;
  _mm_setcsr(before);
  EXPECT_EQ(contract, 64);
  EXPECT_EQ(gradual, 64);
  EXPECT_EQ(flushed, 0.0f) << "the control: under the caller's settings the product is flushed";
  EXPECT_EQ(after, strange);
}
#endif

}  // namespace
}  // namespace eadem
