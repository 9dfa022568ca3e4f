// Speed of whole steps on a CUDA device: a model of a known shape with random weights, made on the spot in a folder.
// One line of JSON for each case.
//
//   engine_speed [--shape qwen3-8b|qwen3-0.6b|smollm2-135m] [--folder DIR] [--numerics mma16] [--device N]
//                [--cases 1x128+64,64x1024+128,8x2048+1] [--chunk 8192] [--graphs 1] [--async 1] [--ahead 1]
//                [--layers N] [--seconds S] [--profile 0] [--fuse 1] [--mode contract|free]
//
// A case is sequences x prompt + tokens drawn of each. Where one token is drawn, the figure is prompt tokens a second;
// else the tokens drawn a second from the step in which the last sequence drew its first on. --profile 1 takes a step
// of each case apart instead (step_profile.h).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "device/step_profile.h"
#include "engine/engine.h"
#include "model/model.h"
#include "weights/checkpoint.h"

namespace eadem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kShape = "qwen3-8b";

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct Shape {
  int layers, hidden, heads, kv_heads, head_size, intermediate, vocab;
  bool tied;
};

const std::map<std::string, Shape>& shapes() {
  static const std::map<std::string, Shape> all = {
      {"qwen3-8b", {36, 4096, 32, 8, 128, 12288, 151936, false}},
      {"qwen3-0.6b", {28, 1024, 16, 8, 128, 3072, 151936, true}},
      {"smollm2-135m", {30, 576, 9, 3, 64, 1536, 49152, true}},
  };
  return all;
}

// Random bfloat16 of magnitudes in [1, 2) * 2^exponent, either sign; tensors are cuts of it.
std::vector<uint16_t> noise(int exponent) {
  std::vector<uint16_t> values(size_t{1} << 23);
  std::mt19937_64 random(static_cast<uint64_t>(exponent + 1000));
  for (uint16_t& value : values) {
    const uint64_t r = random();
    value = static_cast<uint16_t>((r & 0x807f) | static_cast<uint64_t>(127 + exponent) << 7);
  }
  return values;
}

// A shard: tensors one after another.
class Shard {
 public:
  explicit Shard(std::string file) : file_(std::move(file)) {}

  void add(const std::string& name, std::vector<int> dimensions, bool is_norm) {
    size_t count = 1;
    std::string shape;
    for (const int d : dimensions) {
      count *= static_cast<size_t>(d);
      shape += (shape.empty() ? "" : ",") + std::to_string(d);
    }
    const size_t bytes = count * (is_norm ? 4 : 2);
    header_ += (header_.empty() ? "{\"" : ",\"") + name + R"(":{"dtype":")" + (is_norm ? "F32" : "BF16") +
               R"(","shape":[)" + shape + R"(],"data_offsets":[)" + std::to_string(size_) + "," +
               std::to_string(size_ + bytes) + "]}";
    size_ += bytes;
    tensors_.push_back({is_norm ? 0 : count, is_norm ? count : 0, dimensions.back()});
    names_.push_back(name);
  }

  const std::string& file() const { return file_; }
  const std::vector<std::string>& names() const { return names_; }

  void write(const std::filesystem::path& folder) const {
    std::string header = header_ + "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::ofstream out(folder / file_, std::ios::binary);
    const uint64_t length = header.size();
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << header;
    size_t from = 12345;
    for (const Tensor& tensor : tensors_) {
      const std::vector<float> ones(tensor.norms, 1.0f);
      out.write(reinterpret_cast<const char*>(ones.data()), static_cast<std::streamsize>(4 * ones.size()));
      if (tensor.weights == 0) continue;
      // So that a product of unit values has about unit size.
      const std::vector<uint16_t>& values = noise_of(-static_cast<int>(std::lround(std::log2(tensor.columns) / 2)) - 1);
      for (size_t left = tensor.weights; left > 0;) {
        from = from % values.size();
        const size_t part = std::min(left, values.size() - from);
        out.write(reinterpret_cast<const char*>(values.data() + from), static_cast<std::streamsize>(2 * part));
        left -= part, from += part;
      }
      from += 7919;
    }
  }

 private:
  struct Tensor {
    size_t weights, norms;
    int columns;
  };

  static const std::vector<uint16_t>& noise_of(int exponent) {
    static thread_local std::map<int, std::vector<uint16_t>> kept;
    auto& values = kept[exponent];
    if (values.empty()) values = noise(exponent);
    return values;
  }

  std::string file_, header_;
  std::vector<std::string> names_;
  std::vector<Tensor> tensors_;
  size_t size_ = 0;
};

Shard layer_shard(const Shape& s, int layer) {
  Shard shard("layer-" + std::to_string(layer) + ".safetensors");
  const std::string prefix = "model.layers." + std::to_string(layer) + ".", attention = prefix + "self_attn.";
  shard.add(prefix + "input_layernorm.weight", {s.hidden}, true);
  shard.add(attention + "q_proj.weight", {s.heads * s.head_size, s.hidden}, false);
  shard.add(attention + "k_proj.weight", {s.kv_heads * s.head_size, s.hidden}, false);
  shard.add(attention + "v_proj.weight", {s.kv_heads * s.head_size, s.hidden}, false);
  shard.add(attention + "o_proj.weight", {s.hidden, s.heads * s.head_size}, false);
  shard.add(attention + "q_norm.weight", {s.head_size}, true);
  shard.add(attention + "k_norm.weight", {s.head_size}, true);
  shard.add(prefix + "post_attention_layernorm.weight", {s.hidden}, true);
  shard.add(prefix + "mlp.gate_proj.weight", {s.intermediate, s.hidden}, false);
  shard.add(prefix + "mlp.up_proj.weight", {s.intermediate, s.hidden}, false);
  shard.add(prefix + "mlp.down_proj.weight", {s.hidden, s.intermediate}, false);
  return shard;
}

void write_model(const std::filesystem::path& folder, const Shape& s) {
  std::filesystem::create_directories(folder);
  const auto field = [](const char* name, int value) {
    return "\"" + std::string(name) + "\":" + std::to_string(value) + ",";
  };
  std::ofstream(folder / "config.json")
      << R"({"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3",)" + field("hidden_size", s.hidden) +
             field("num_attention_heads", s.heads) + field("num_key_value_heads", s.kv_heads) +
             field("head_dim", s.head_size) + field("intermediate_size", s.intermediate) +
             field("num_hidden_layers", s.layers) + field("vocab_size", s.vocab) +
             field("max_position_embeddings", 40960) +
             R"("rms_norm_eps":1e-6,"rope_theta":1000000.0,"hidden_act":"silu","tie_word_embeddings":)" +
             (s.tied ? "true}" : "false}");
  std::vector<Shard> shards;
  for (int layer = 0; layer < s.layers; ++layer) shards.push_back(layer_shard(s, layer));
  Shard rest("rest.safetensors");
  rest.add("model.embed_tokens.weight", {s.vocab, s.hidden}, false);
  rest.add("model.norm.weight", {s.hidden}, true);
  if (!s.tied) rest.add("lm_head.weight", {s.vocab, s.hidden}, false);
  shards.push_back(rest);
  std::string index;
  for (const Shard& shard : shards) {
    for (const std::string& name : shard.names()) {
      index += (index.empty() ? "\"" : ",\"") + name + "\":\"" + shard.file() + "\"";
    }
  }
  std::ofstream(folder / "model.safetensors.index.json") << R"({"metadata":{},"weight_map":{)" << index << "}}";
  std::vector<std::thread> writers;
  const size_t count = std::max(1u, std::min(8u, std::thread::hardware_concurrency()));
  for (size_t writer = 0; writer < count; ++writer) {
    writers.emplace_back([&, writer] {
      for (size_t i = writer; i < shards.size(); i += count) shards[shards.size() - 1 - i].write(folder);
    });
  }
  for (std::thread& writer : writers) writer.join();
}

struct Counting final : engine::Listener {
  void on_prompt(std::vector<SampledToken>) override {}
  bool on_token(const SampledToken&, bool) override {
    ++tokens;
    return true;
  }
  void on_finish(const engine::Outcome& outcome) override { error = outcome.error; }
  int tokens = 0;
  std::string error;
};

struct Case {
  int sequences = 1, prompt = 128, tokens = 64;
};

std::vector<Case> parse_cases(const std::string& text) {
  std::vector<Case> cases;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    Case one;
    if (std::sscanf(part.c_str(), "%dx%d+%d", &one.sequences, &one.prompt, &one.tokens) == 3) cases.push_back(one);
  }
  return cases;
}

// Tokens a second, and milliseconds of the median step.
std::pair<double, double> run_case(engine::Engine& engine, const Case& asked, int vocab, uint32_t salt) {
  std::mt19937 random(salt);
  std::vector<Counting> listeners(static_cast<size_t>(asked.sequences));
  for (Counting& listener : listeners) {
    engine::SequenceRequest request;
    request.prompt.resize(static_cast<size_t>(asked.prompt));
    for (int32_t& token : request.prompt) token = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab));
    request.sampling.max_tokens = asked.tokens;
    request.sampling.ignore_eos = true;
    request.sampling.temperature = 0.0f;
    const auto submitted = engine.submit(std::move(request), &listener);
    if (!submitted.ok()) throw std::runtime_error(submitted.error().message);
  }
  const auto total = [&] {
    int sum = 0;
    for (const Counting& listener : listeners) sum += listener.tokens;
    return sum;
  };
  const auto all_begun = [&] {
    return std::all_of(listeners.begin(), listeners.end(), [](const Counting& c) { return c.tokens > 0; });
  };
  const auto start = Clock::now();
  auto decode = start;
  int before = 0;
  bool begun = false;
  std::vector<double> steps;
  for (bool more = true; more;) {
    const auto step = Clock::now();
    more = engine.step();
    if (begun) steps.push_back(1e3 * since(step));
    if (!begun && all_begun()) {
      begun = true;
      decode = Clock::now();
      before = total();
    }
  }
  for (const Counting& listener : listeners) {
    if (!listener.error.empty()) throw std::runtime_error(listener.error);
  }
  if (asked.tokens == 1) return {asked.sequences * asked.prompt / since(start), 0.0};
  const double rate = (total() - before) / since(decode);
  std::sort(steps.begin(), steps.end());
  return {rate, steps.empty() ? 0.0 : steps[steps.size() / 2]};
}

class Arguments {
 public:
  explicit Arguments(std::map<std::string, std::string> given) : given_(std::move(given)) {}
  std::string get(const char* name, const char* otherwise) const {
    const auto found = given_.find(name);
    return found != given_.end() ? found->second : otherwise;
  }
  int number(const char* name, const char* otherwise) const { return std::stoi(get(name, otherwise)); }
  bool is_on(const char* name, const char* otherwise) const { return get(name, otherwise) == "1"; }

 private:
  std::map<std::string, std::string> given_;
};

void measure(model::Model& model, const Arguments& arguments, const Case& one, const std::function<bool()>& in_time) {
  const model::ModelOptions& loaded = model.options();
  engine::Options chosen;
  chosen.max_batch = one.sequences;
  chosen.prefill_chunk = loaded.max_rows;
  chosen.mixed_chunk = 1 << 20;
  chosen.kv_blocks = one.sequences * ((one.prompt + one.tokens) / 64 + 1);
  chosen.prefix_cache = false;
  chosen.async_scheduling = arguments.is_on("async", "1");
  chosen.run_ahead = arguments.is_on("ahead", "1");
  auto engine = engine::Engine::create(model, chosen);
  if (!engine.ok()) throw std::runtime_error(engine.error().message);
  double best = 0, step = 0;
  for (uint32_t repeat = 0; repeat < 3 && in_time(); ++repeat) {
    const auto [rate, milliseconds] =
        run_case(*engine.value(), one, static_cast<int>(model.config().vocab), repeat + 1);
    if (rate > best) best = rate, step = milliseconds;
  }
  const Counters& counters = engine.value()->counters();
  std::printf(R"({"test":"engine_speed","shape":"%s","layers":%d,"numerics":"%s","mode":"%s","graphs":%s,"async":%s,)"
              R"("sequences":%d,"prompt":%d,"tokens":%d,"tokens_per_second":%.1f,"median_step_ms":%.3f,)"
              R"("steps":%llu,"ahead_steps":%llu})"
              "\n",
              arguments.get("shape", kShape).c_str(), model.config().layers,
              std::string(numerics::short_name(loaded.numerics)).c_str(), arguments.get("mode", "contract").c_str(),
              loaded.graphs ? "true" : "false", chosen.async_scheduling ? "true" : "false", one.sequences, one.prompt,
              one.tokens, best, step, static_cast<unsigned long long>(counters.steps),
              static_cast<unsigned long long>(counters.ahead_steps));
  std::fflush(stdout);
}

void profile(model::Model& model, testing::LeavingOut& device, const Case& one) {
  const int vocab = static_cast<int>(model.config().vocab);
  if (one.tokens == 1) {
    const int sequences = std::clamp(model.options().max_rows / one.prompt, 1, one.sequences);
    return testing::profile_step(model, device, {sequences, 0, one.prompt, vocab}, 4);
  }
  const int64_t position = one.prompt + one.tokens / 2;
  testing::profile_step(model, device, {one.sequences, position, position + 1, vocab}, 24);
}

int run(const Arguments& arguments) {
  const std::string name = arguments.get("shape", kShape);
  if (shapes().count(name) == 0) throw std::runtime_error("no shape " + name);
  Shape shape = shapes().at(name);
  shape.layers = arguments.number("layers", std::to_string(shape.layers).c_str());
  const auto begin = Clock::now();
  const std::filesystem::path folder =
      arguments.get("folder", "/tmp") + "/" + name + "-" + std::to_string(shape.layers);
  if (!std::filesystem::exists(folder / "config.json")) write_model(folder, shape);
  std::fprintf(stderr, "files: %.1f s\n", since(begin));

  const auto order =
      arguments.get("mode", "contract") == "free" ? kernels::SumOrder::kFree : kernels::SumOrder::kContract;
  auto device = kernels::open_cuda_device(arguments.number("device", "0"), order);
  if (!device.ok()) throw std::runtime_error(device.error().message);
  const auto leaving_out = std::make_shared<testing::LeavingOut>(std::move(device).value());
  leaving_out->fuses = arguments.is_on("fuse", "1");
  auto checkpoint = weights::Checkpoint::open(folder);
  if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
  model::ModelOptions options;
  for (const auto one : numerics::kAllNumerics) {
    if (arguments.get("numerics", "mma16") == numerics::short_name(one)) options.numerics = one;
  }
  options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  options.max_rows = arguments.number("chunk", "8192");
  options.device = leaving_out;
  options.graphs = arguments.is_on("graphs", "1");
  auto model = model::Model::load(checkpoint.value(), options);
  if (!model.ok()) throw std::runtime_error(model.error().message);
  std::fprintf(stderr, "loaded: %.1f s, %.2f GB of weights\n", since(begin),
               static_cast<double>(model.value()->weight_bytes()) * 1e-9);

  const double seconds = std::stod(arguments.get("seconds", "1e9"));
  const auto in_time = [&] { return since(begin) < seconds; };
  for (const Case& one : parse_cases(arguments.get("cases", "1x128+64,16x1024+64,64x1024+64,8x2048+1"))) {
    if (!in_time()) break;
    if (arguments.is_on("profile", "0")) {
      profile(*model.value(), *leaving_out, one);
    } else {
      measure(*model.value(), arguments, one, in_time);
    }
  }
  return 0;
}

}  // namespace
}  // namespace eadem

int main(int count, char** values) {
  std::map<std::string, std::string> arguments;
  for (int i = 1; i + 1 < count; i += 2) arguments[std::string(values[i]).substr(2)] = values[i + 1];
  try {
    return eadem::run(eadem::Arguments(std::move(arguments)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_speed: %s\n", error.what());
    return 1;
  }
}
