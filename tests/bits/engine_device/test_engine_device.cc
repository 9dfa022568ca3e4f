// The engine on a device gives the engine's bits: weights, keys and values, inputs, draws and traces take another way
// there. The device is made of this machine's kernels, so that this holds without a GPU too.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/sha256.h"
#include "support/device_cells.h"
#include "support/host_device.h"

namespace eadem::testing {
namespace {

using numerics::Numerics;

const ShapedModel& tiny() {
  static const ShapedModel model({"tiny"});
  return model;
}

class OnDevice : public ::testing::TestWithParam<Numerics> {
 protected:
  int count() const { return GetParam() == Numerics::kMma16 ? 7 : 34; }
  int longest() const { return GetParam() == Numerics::kMma16 ? 100 : 150; }
};

TEST_P(OnDevice, EveryCellGivesTheBitsOfThisMachine) {
  const auto asked = mixed_requests(count(), tiny().shape().vocab, longest(), 12);
  const auto here = tiny().load(GetParam(), 2, 512, nullptr);
  const auto expected = run_cell(*here, {4, 512}, asked, nullptr);
  EXPECT_EQ(std::set<std::string>(expected.begin(), expected.end()).size(), expected.size());
  const DeviceCell cells[] = {{1, 512},
                              {2, 7},
                              {7, 64, 0, true, true, 3},
                              {33, 33, 0, true, false, 0, 2},
                              {5, 32, 14},
                              {4, 33, 14, true, true}};
  uint64_t replays = 0;
  for (size_t i = 0; i < 2 * std::size(cells); ++i) {
    const DeviceCell& cell = cells[i / 2];
    const bool graphs = i % 2 == 0;
    SCOPED_TRACE(cell.describe() + (graphs ? "" : " without graphs"));
    const auto device = std::make_shared<HostDevice>();
    const auto there = tiny().load(GetParam(), 2, 512, device, graphs);
    const uint64_t before = device->calls();
    Counters counters;
    EXPECT_EQ(run_cell(*there, cell, asked, &counters), expected);
    EXPECT_GT(device->calls(), before + counters.steps);
    replays += device->replays();
    if (!graphs) {
      EXPECT_EQ(device->replays(), 0u);
    }
    if (cell.rounds > 1) {
      EXPECT_GT(counters.prefix_hit_tokens, 64u);
    }
    if (cell.preempt > 0) {
      EXPECT_GT(counters.preemptions, 0u);
    }
    EXPECT_EQ(counters.ahead_steps > 0, cell.async) << counters.ahead_steps;
    EXPECT_EQ(device->fused() > 0, cell.batch > 1 || cell.chunk > 5);  // SwiGLU inside its layer, for enough rows
  }
  EXPECT_GT(replays, 20u);
}

// Steps are queued before the one before has drawn, with recordings and without, beside prompts that are read in pieces
// and sequences that end where nobody knew it.
TEST_P(OnDevice, AStepThatIsLaunchedAheadGivesTheBitsOfThisMachine) {
  const auto asked = drawn_requests(count(), tiny().shape().vocab, longest(), 20);
  const auto here = tiny().load(GetParam(), 2, 512, nullptr);
  const auto expected = run_cell(*here, {4, 512}, asked, nullptr);
  for (const bool graphs : {true, false}) {
    for (const DeviceCell& cell : {DeviceCell{1, 512, 0, false, true}, DeviceCell{7, 20, 0, true, true},
                                   DeviceCell{40, 512, 0, true, true}, DeviceCell{5, 64, 0, true, true, 4}}) {
      for (const bool ahead : {true, false}) {
        DeviceCell one = cell;
        one.ahead = ahead;
        SCOPED_TRACE(one.describe() + (graphs ? "" : " without graphs"));
        const auto device = std::make_shared<HostDevice>();
        const auto there = tiny().load(GetParam(), 2, 512, device, graphs);
        Counters counters;
        EXPECT_EQ(run_cell(*there, one, asked, &counters), expected);
        const uint64_t least = one.preempt > 0 ? 1 : counters.steps * 3 / 4;
        EXPECT_EQ(counters.ahead_steps > least, ahead) << counters.ahead_steps << " of " << counters.steps;
        EXPECT_EQ(device->replays() > 0, graphs);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Numerics, OnDevice, ::testing::ValuesIn(numerics::kAllNumerics),
                         [](const auto& tested) { return std::string(numerics::short_name(tested.param)); });

// Digests of all that a trace is told.
struct Recorder final : model::TraceSink {
  void record(const model::Batch& batch, int row, int layer, std::string_view op,
              std::span<const std::byte> bytes) override {
    Sha256 hash;
    hash.update(bytes);
    told[std::to_string(batch.rows[static_cast<size_t>(row)].position) + " " + std::to_string(layer) + " " +
         std::string(op)] = hash.hex();
  }
  std::map<std::string, std::string> told;
};

TEST(DeviceTrace, TellsWhatThisMachineTells) {
  const auto asked = mixed_requests(1, tiny().shape().vocab, 70, 4);
  std::map<std::string, std::string> told[2];
  for (const bool there : {false, true}) {
    const auto model = tiny().load(Numerics::kFma32, 2, 64, there ? std::make_shared<HostDevice>() : nullptr);
    engine::Options options;
    options.prefill_chunk = 64;
    auto engine = engine::Engine::create(*model, options).value();
    Recorder recorder;
    engine->set_trace(&recorder);
    run_all(*engine, asked);
    told[there] = recorder.told;
  }
  EXPECT_GT(told[0].size(), 70u * 8u);
  EXPECT_EQ(told[0], told[1]);
}

TEST(DeviceMemory, ThatRunsOutIsAnErrorThatSaysForWhat) {
  for (const size_t bytes : {size_t{1000}, size_t{100'000}, size_t{1'000'000}}) {
    try {
      const auto model = tiny().load(Numerics::kFma32, 1, 512, std::make_shared<HostDevice>(bytes));
      const auto engine = engine::Engine::create(*model, {});
      ASSERT_FALSE(engine.ok());
      EXPECT_NE(engine.error().message.find("no device memory for the KV pool"), std::string::npos);
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find("no device memory for "), std::string::npos);
    }
  }
}

// The negative control: a device whose linear layers know how many rows they are called with.
class RowCounting final : public HostDevice {
 public:
  void linear(const kernels::LinearCall& call, int rows) override {
    HostDevice::linear(call, rows);
    if (rows > 1) scale(call, rows, 1.0f + 0x1p-18f);
  }
};

// Another one: a device whose steps do not see what the step before drew.
class Forgetting final : public HostDevice {
 public:
  void embed(const uint16_t* table, const int32_t* tokens, const kernels::DeviceDrawn*, int rows, int n,
             float* h) override {
    HostDevice::embed(table, tokens, nullptr, rows, n, h);
  }
};

TEST(NegativeControl, TheSameComparisonFailsOnADeviceThatForgetsWhatItDrew) {
  const auto asked = drawn_requests(7, tiny().shape().vocab, 60, 12);
  const auto here = tiny().load(Numerics::kFma32, 1, 512, nullptr);
  const auto there = tiny().load(Numerics::kFma32, 1, 512, std::make_shared<Forgetting>());
  const auto expected = run_cell(*here, {7, 512}, asked, nullptr);
  DeviceCell cell{7, 512, 0, false, true};
  EXPECT_NE(run_cell(*there, cell, asked, nullptr), expected);
  cell.ahead = false;
  EXPECT_EQ(run_cell(*there, cell, asked, nullptr), expected);
}

TEST(NegativeControl, TheSameComparisonFailsOnADeviceThatKnowsItsBatch) {
  const auto asked = mixed_requests(7, tiny().shape().vocab, 60, 12);
  const auto here = tiny().load(Numerics::kFma32, 1, 512, nullptr);
  const auto there = tiny().load(Numerics::kFma32, 1, 512, std::make_shared<RowCounting>());
  EXPECT_NE(run_cell(*there, {7, 512}, asked, nullptr), run_cell(*here, {7, 512}, asked, nullptr));
}

}  // namespace
}  // namespace eadem::testing
