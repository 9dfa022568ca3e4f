// The machine's ceilings with several threads at once, as JSON: what `./dev bench cpu` draws its figures under.
//
//   bench_ceilings [--threads N] [--repeats N] [--seconds S] [--read BYTES,BYTES,...]
//
// Reads: each thread reads its share of a buffer of the given size again and again; a size that fits in a cache gives
// the cache's rate, so the sizes of interest are those of the models' weights and one far beyond every cache.
// Arithmetic: each thread runs the loop of ceilings.h. Rates are sums over threads: all the work over the time from the
// common start to the last thread's end.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "ceilings.h"

namespace {

using namespace eadem::bench;  // NOLINT
using nlohmann::ordered_json;

struct Arguments {
  int threads = 2, repeats = 5;
  double seconds = 0.2;  // of one measurement
  std::vector<size_t> reads = {size_t{1} << 28, size_t{1} << 31};
};

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "bench_ceilings: %s\n", message.c_str());
  std::exit(2);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::atomic<uint64_t> sink;  // keeps the loops' results alive

// Seconds from the common start to the last end of work(0) ... work(threads - 1).
double together(int threads, const std::function<uint64_t(int)>& work) {
  std::atomic<int> ready = 0;
  std::atomic<bool> go = false;
  std::vector<double> ends(static_cast<size_t>(threads));
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      ++ready;
      while (!go.load()) std::this_thread::yield();
      sink += work(t);
      ends[static_cast<size_t>(t)] = now();
    });
  }
  while (ready.load() < threads) std::this_thread::yield();
  const double start = now();
  go = true;
  for (auto& thread : all) thread.join();
  return *std::max_element(ends.begin(), ends.end()) - start;
}

// Median and spread, (largest - smallest) / median, of the repeats.
ordered_json summary(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {{"median", median}, {"spread", (values.back() - values.front()) / median}};
}

ordered_json measure_peak(const Arguments& arguments, const Peak& peak) {
  int64_t steps = 1 << 12;  // doubled until a thread needs about the time asked for
  while (together(1, [&](int) { return peak.run(steps); }) < arguments.seconds / 2) steps *= 2;
  std::vector<double> rates;
  for (int repeat = 0; repeat < arguments.repeats; ++repeat) {
    const double seconds = together(arguments.threads, [&](int) { return peak.run(steps); });
    rates.push_back(1e-9 * static_cast<double>(steps) * peak.operations_of_step() * arguments.threads / seconds);
  }
  ordered_json result = summary(rates);
  result["unit"] = std::string("G").append(peak.unit).append("/s");
  return result;
}

// Memory in huge pages where the system gives them, as the engine's weights are.
struct Pages {
  explicit Pages(size_t size) : bytes(size) {
    void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) fail("not enough memory to read " + std::to_string(bytes) + " bytes");
    ::madvise(mapped, bytes, MADV_HUGEPAGE);
    std::memset(mapped, 1, bytes);
    data = static_cast<std::byte*>(mapped);
  }
  ~Pages() { ::munmap(data, bytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* data = nullptr;
  size_t bytes;
};

ordered_json measure_read(const Arguments& arguments, size_t bytes) {
  const auto threads = static_cast<size_t>(arguments.threads);
  const size_t share = bytes / threads / 1024 * 1024;
  if (share == 0) fail("--read: at least 1,024 bytes for each thread");
  const Pages pages(share * threads);
  int rounds = 1;
  const auto read = [&](int t) {
    uint64_t sum = 0;
    for (int round = 0; round < rounds; ++round) sum += read_all(pages.data + static_cast<size_t>(t) * share, share);
    return sum;
  };
  while (together(arguments.threads, read) < arguments.seconds / 2) rounds *= 2;
  std::vector<double> rates;
  for (int repeat = 0; repeat < arguments.repeats; ++repeat) {
    const double seconds = together(arguments.threads, read);
    rates.push_back(1e-9 * static_cast<double>(share * threads) * rounds / seconds);
  }
  ordered_json result = {{"bytes", share * threads}};
  result.update(summary(rates));
  result["unit"] = "GB/s";
  return result;
}

std::vector<size_t> parse_sizes(const std::string& text) {
  std::vector<size_t> sizes;
  for (size_t at = 0; at < text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    sizes.push_back(std::strtoull(text.substr(at, comma - at).c_str(), nullptr, 10));
    at = comma + 1;
  }
  return sizes;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (i + 1 == argc) fail("unknown option, or one without a value: " + name);
    const std::string value = argv[++i];
    if (name == "--threads") {
      arguments.threads = std::atoi(value.c_str());
    } else if (name == "--repeats") {
      arguments.repeats = std::atoi(value.c_str());
    } else if (name == "--seconds") {
      arguments.seconds = std::atof(value.c_str());
    } else if (name == "--read") {
      arguments.reads = parse_sizes(value);
    } else {
      fail("unknown option " + name);
    }
  }
  if (arguments.threads < 1 || arguments.repeats < 1 || !(arguments.seconds > 0)) fail("a value below its least");
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  ordered_json all = {{"threads", arguments.threads}, {"repeats", arguments.repeats}};
  for (const Peak& peak : peaks()) {
    // A machine without one shows null: left out of no report.
    all["peaks"][std::string(peak.name)] = peak.supported() ? measure_peak(arguments, peak) : ordered_json(nullptr);
  }
  all["read"] = ordered_json::array();
  for (const size_t bytes : arguments.reads) all["read"].push_back(measure_read(arguments, bytes));
  std::printf("%s\n", all.dump().c_str());
  return 0;
}
