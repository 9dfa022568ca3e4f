// Whole answers on a CUDA device against this machine's kernels: models of several shapes, all numerics, many cells.
// One line for each cell; the last is a summary in JSON. The control is free order on the same device (it needs
// cuBLASLt: EADEM_CUBLASLT): its answers must be seen to depend on the batch, and be as accurate. Exit status 0: all
// equal, and the control was not.
//
//   engine_equality [--only TEXT] [--device N] [--seconds S]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "support/device_cells.h"

namespace eadem::testing {
namespace {

using Clock = std::chrono::steady_clock;
using numerics::Numerics;

struct Arguments {
  std::string only;
  int device = 0;
  double seconds = 1e9;
};

struct Tally {
  int cells = 0, equal = 0, skipped = 0, explained = 0;
  uint64_t ahead_steps = 0;
  int controls = 0, controls_that_moved = 0;
  std::string first_failure;

  void fail(const std::string& what) {
    if (first_failure.empty()) first_failure = what;
  }
};

struct Model {
  RandomShape shape;
  int requests = 0, longest = 0, tokens = 0;
};

// Sizes of well-known models with fewer layers, and small ones that no tile likes.
std::vector<Model> models() {
  std::vector<Model> all;
  const auto add = [&](const RandomShape& shape, int requests, int longest, int tokens) {
    all.push_back({shape, requests, longest, tokens});
  };
  add({"odd"}, 34, 150, 12);
  add({"odd-qwen2", "qwen2", 2, 104, 6, 2, 32, 136, 211}, 20, 80, 8);
  add({"head-128", "qwen3", 2, 128, 4, 1, 128, 352, 1031, 2048, 0, true}, 16, 1300, 6);
  add({"head-256", "llama", 2, 256, 2, 1, 256, 512, 515}, 12, 300, 6);
  add({"smollm2", "llama", 3, 576, 9, 3, 64, 1536, 4096, 2048, 0, true}, 24, 200, 10);
  add({"qwen3-0.6b", "qwen3", 2, 1024, 16, 8, 128, 3072, 16384, 2048, 0, true}, 12, 150, 8);
  add({"llama-3.2-1b", "llama", 2, 2048, 32, 8, 64, 8192, 16384, 2048, 0, true}, 8, 120, 6);
  return all;
}

std::vector<DeviceCell> cells() {
  return {{1, 512},
          {2, 7},
          {7, 64, 0, true, true, 3},
          {16, 500, 0, false},
          {33, 33, 0, true, false, 0, 2},
          {64, 512, 0, true, true, 4},
          {200, 512, 0, true, true}};
}

std::string verdict(const std::vector<std::string>& got, const std::vector<std::string>& expected) {
  int wrong = 0;
  size_t first = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i]) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return "equal";
  return std::to_string(wrong) + " of " + std::to_string(got.size()) + " differ, first " + std::to_string(first) +
         (got[first].size() > 64 ? got[first].substr(64) : "");
}

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Says of a cell that differs in what, whether it differs from itself too, and which op is the first to.
void explain(model::Model& here, model::Model& there, DeviceCell cell,
             const std::vector<engine::SequenceRequest>& asked) {
  std::vector<std::string> parts[3];
  Traced traced[2];
  run_cell(here, cell, asked, nullptr, nullptr, &parts[0]);
  run_cell(there, cell, asked, nullptr, nullptr, &parts[1]);
  run_cell(there, cell, asked, nullptr, nullptr, &parts[2]);
  int unstable = 0, told = 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    unstable += parts[1][i] != parts[2][i];
    if (parts[0][i] == parts[1][i] || told++ >= 4) continue;
    std::printf("    request %zu\n      here  %.400s\n      there %.400s\n", i, parts[0][i].c_str(),
                parts[1][i].c_str());
  }
  std::printf("    %d requests differ from run to run on the device\n", unstable);
  cell.async = false;
  run_cell(here, cell, asked, nullptr, &traced[0], &parts[0]);
  run_cell(there, cell, asked, nullptr, &traced[1], &parts[1]);
  int wrong = 0;
  for (size_t i = 0; i < asked.size(); ++i) wrong += parts[0][i] != parts[1][i];
  std::printf("    traced, %d requests differ\n", wrong);
  told = 0;
  for (const auto& [key, value] : traced[0]) {
    const auto found = traced[1].find(key);
    if (found != traced[1].end() && found->second == value) continue;
    if (told++ < 3) std::printf("    first differs: %s\n", key.c_str());
  }
}

// Relative distance of logits from the contract's, at most. int8 of free order does not quantise what a layer reads.
double bound_of(Numerics numerics) { return numerics == Numerics::kInt8 ? 0.05 : 0.02; }
// Layers with fewer inputs may be added up in one order whatever the batch.
constexpr int kMovingHidden = 512;

void run_control(const Model& asked, const ShapedModel& files, Numerics numerics, model::Model& contract,
                 const std::vector<engine::SequenceRequest>& requests, const std::shared_ptr<kernels::Device>& device,
                 Tally& tally) {
  const auto begin = Clock::now();
  const auto model = files.load(numerics, contract.options().threads, 512, device);
  const uint64_t calls = device->calls();
  Counters counters;
  const auto alone = run_cell(*model, {1, 512}, requests, &counters);
  const auto together = run_cell(*model, {16, 512}, requests, nullptr);
  const auto again = run_cell(*model, {16, 512}, requests, nullptr);
  int moved = 0;
  for (size_t i = 0; i < alone.size(); ++i) moved += alone[i] != together[i];
  std::vector<int32_t> prompt = requests[0].prompt;
  prompt.resize(std::min<size_t>(prompt.size(), 300));
  const double apart = distance(logits_of(*model, prompt), logits_of(contract, prompt));
  const std::string name = asked.shape.name + " " + std::string(numerics::short_name(numerics)) + " free order";
  std::printf("%-70s %d of %zu answers depend on the batch, logits %.2g from the contract's (%.2f s)\n", name.c_str(),
              moved, alone.size(), apart, since(begin));
  std::fflush(stdout);
  ++tally.controls;
  tally.controls_that_moved += moved > 0;
  if (device->calls() <= calls + counters.steps) tally.fail(name + ": the device computed nothing");
  if (moved == 0 && asked.shape.hidden >= kMovingHidden) tally.fail(name + ": no answer depends on the batch");
  if (again != together) tally.fail(name + ": the same cell twice, once recorded, differs");
  if (!(apart <= bound_of(numerics))) tally.fail(name + ": its logits are too far from the contract's");
}

// Requests, and what this machine says to them.
struct Asked {
  std::string name;
  std::vector<engine::SequenceRequest> requests;
  std::vector<DeviceCell> cells;
  std::vector<std::string> expected;
  double seconds = 0;  // that this machine took
};

// Of mixed requests some are drawn on this machine, so that few steps are launched ahead; of the others nearly all are.
std::vector<Asked> asked_of(const Model& model) {
  std::vector<Asked> all(2);
  all[0].requests = mixed_requests(model.requests, model.shape.vocab, model.longest, model.tokens);
  all[0].cells = cells();
  all[1].name = "drawn ";
  all[1].requests = drawn_requests(model.requests / 2 + 3, model.shape.vocab, model.longest, 2 * model.tokens);
  all[1].cells = {{1, 512, 0, false, true},
                  {7, 64, 0, true, true},
                  {64, 512, 0, true, true},
                  {64, 512, 0, true, true, 4},
                  {64, 512, 0, true, true, 0, 1, false}};
  return all;
}

struct Loaded {
  std::unique_ptr<model::Model> here, there, without_graphs;
};

void run_one(const std::string& name, const Loaded& models, bool graphs, const DeviceCell& cell, const Asked& asked,
             kernels::Device& device, Tally& tally) {
  const auto begin = Clock::now();
  const uint64_t calls = device.calls();
  Counters counters;
  model::Model& model = graphs ? *models.there : *models.without_graphs;
  std::string said = verdict(run_cell(model, cell, asked.requests, &counters), asked.expected);
  if (device.calls() <= calls + counters.steps) said = "the device computed nothing";
  const bool ahead = cell.async && cell.ahead;
  if (!ahead && counters.ahead_steps > 0) said = "steps were launched ahead";
  if (ahead && !asked.name.empty() && counters.ahead_steps == 0) said = "no step was launched ahead";
  ++tally.cells;
  tally.equal += said == "equal";
  tally.ahead_steps += counters.ahead_steps;
  if (said != "equal") tally.fail(name + ": " + said);
  std::printf("%-70s %s (%.2f s; here %.2f s; %llu of %llu steps ahead)\n", name.c_str(), said.c_str(), since(begin),
              asked.seconds, static_cast<unsigned long long>(counters.ahead_steps),
              static_cast<unsigned long long>(counters.steps));
  if (said != "equal" && tally.explained++ < 4) explain(*models.here, model, cell, asked.requests);
  std::fflush(stdout);
}

// free_device: null where there is none.
void run_model(const Model& model, const ShapedModel& files, Numerics numerics,
               const std::shared_ptr<kernels::Device>& device, const std::shared_ptr<kernels::Device>& free_device,
               const std::function<bool()>& in_time, Tally& tally) {
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const Loaded models{files.load(numerics, threads, 512, nullptr), files.load(numerics, threads, 512, device),
                      files.load(numerics, threads, 512, device, false)};
  std::vector<Asked> all = asked_of(model);
  for (Asked& asked : all) {
    if (!in_time()) break;
    const auto begin = Clock::now();
    asked.expected = run_cell(*models.here, {16, 512}, asked.requests, nullptr);
    asked.seconds = since(begin);
    for (size_t i = 0; i < 2 * asked.cells.size(); ++i) {
      if (!in_time()) {
        ++tally.skipped;
        continue;
      }
      const DeviceCell& cell = asked.cells[i / 2];
      const bool graphs = i % 2 == 0;
      run_one(model.shape.name + " " + std::string(numerics::short_name(numerics)) + " " + asked.name +
                  cell.describe() + (graphs ? "" : " no graphs"),
              models, graphs, cell, asked, *device, tally);
    }
  }
  if (free_device != nullptr && in_time()) {
    run_control(model, files, numerics, *models.there, all[0].requests, free_device, tally);
  }
}

int run(const Arguments& arguments) {
  auto opened = kernels::open_cuda_device(arguments.device);
  if (!opened.ok()) {
    std::printf("%s\n", opened.error().message.c_str());
    return 2;
  }
  const std::shared_ptr<kernels::Device> device = std::move(opened).value();
  const auto begin = Clock::now();
  Tally tally;
  std::shared_ptr<kernels::Device> free_device;
  if (auto free_order = kernels::open_cuda_device(arguments.device, kernels::SumOrder::kFree); free_order.ok()) {
    free_device = std::move(free_order).value();
  } else {
    std::printf("%s\n", free_order.error().message.c_str());
    tally.fail("the control did not run: no cuBLASLt");
  }
  const auto in_time = [&] { return since(begin) < arguments.seconds; };
  for (const Model& model : models()) {
    std::unique_ptr<ShapedModel> files;
    for (const Numerics numerics : numerics::kAllNumerics) {
      const std::string name = model.shape.name + " " + std::string(numerics::short_name(numerics));
      if (name.find(arguments.only) == std::string::npos) continue;
      if (!in_time()) {
        ++tally.skipped;
        continue;
      }
      if (files == nullptr) files = std::make_unique<ShapedModel>(model.shape);
      run_model(model, *files, numerics, device, free_device, in_time, tally);
    }
  }
  std::printf(R"({"test":"engine_equality","device":"%s","kernels":"%s","cells":%d,"equal":%d,"skipped":%d,)"
              R"("controls":%d,"controls_that_moved":%d,"device_calls":%llu,"ahead_steps":%llu,"seconds":%.1f,)"
              R"("first_failure":"%s"})"
              "\n",
              device->facts().name.c_str(), std::string(kernels::best_kernel_set().name).c_str(), tally.cells,
              tally.equal, tally.skipped, tally.controls, tally.controls_that_moved,
              static_cast<unsigned long long>(device->calls()), static_cast<unsigned long long>(tally.ahead_steps),
              since(begin), tally.first_failure.c_str());
  return tally.cells > 0 && tally.cells == tally.equal && tally.first_failure.empty() ? 0 : 1;
}

}  // namespace
}  // namespace eadem::testing

int main(int count, char** values) {
  eadem::testing::Arguments arguments;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = values[i], value = values[i + 1];
    if (name == "--only") arguments.only = value;
    if (name == "--device") arguments.device = std::atoi(value.c_str());
    if (name == "--seconds") arguments.seconds = std::atof(value.c_str());
  }
  return eadem::testing::run(arguments);
}
