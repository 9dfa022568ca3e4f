// Runs cells of the invariance matrix on a model and holds every one against the golden hashes.
//
//   invariance MODEL PROMPTS GOLDEN CELLS [--write]
//
// CELLS: lines "numerics isa threads batch chunk prefix preempt score max_prompt [speculation [max_tokens]]"; isa may
// be "best" and "free-order" (the negative control: such a cell must FAIL to meet the golden hashes). Sets that this
// machine lacks are reported as skipped, by name. GOLDEN: lines "numerics prompt/kind hash"; --write makes them anew
// from the given cells, which must agree with each other. Prints one line a cell and at the end "N passed, N failed, N
// skipped".
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "e2e/invariance/cell.h"
#include "kernels/free/free_sets.h"

namespace {

using namespace eadem;         // NOLINT
using namespace eadem::tests;  // NOLINT

using Golden = std::map<std::string, std::string>;  // "numerics prompt/kind" -> hash

Golden read_golden(const std::string& path) {
  Golden golden;
  std::ifstream file(path);
  for (std::string numerics, name, hash; file >> numerics >> name >> hash;) golden[numerics + " " + name] = hash;
  return golden;
}

struct Line {
  Cell cell;
  bool negative = false;
  std::string missing;  // a kernel set that cannot run here
};

std::vector<Line> read_cells(const std::string& path) {
  std::vector<Line> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    if (text.empty() || text[0] == '#') continue;
    std::istringstream in(text);
    Line line;
    std::string numerics, isa;
    int score = 0;
    in >> numerics >> isa >> line.cell.threads >> line.cell.batch >> line.cell.chunk >> line.cell.prefix >>
        line.cell.preempt >> score >> line.cell.max_prompt;
    if (!in) {
      std::fprintf(stderr, "%s: bad line: %s\n", path.c_str(), text.c_str());
      std::exit(2);
    }
    if (std::string speculation; in >> speculation) line.cell.speculation = speculation;
    if (int tokens; in >> tokens) line.cell.max_tokens = tokens;
    line.cell.score = score != 0;
    for (const auto n : numerics::kAllNumerics) {
      if (numerics == numerics::short_name(n)) line.cell.numerics = n;
    }
    line.negative = isa == "free-order";
    line.cell.kernels = line.negative   ? kernels::free_order_twin(kernels::best_kernel_set())
                        : isa == "best" ? &kernels::best_kernel_set()
                                        : kernels::find_kernel_set(isa);
    if (line.cell.kernels == nullptr || !line.cell.kernels->supported()) line.missing = isa;
    lines.push_back(std::move(line));
  }
  return lines;
}

// Empty where every hash of the cell is golden; else what differs.
std::string compare(const Hashes& hashes, const std::string& numerics, const Golden& golden) {
  std::string differing;
  int count = 0;
  for (const auto& [name, hash] : hashes) {
    const auto found = golden.find(numerics + " " + name);
    if (found != golden.end() && found->second == hash) continue;
    ++count;
    if (count <= 3)
      differing += (differing.empty() ? "" : ", ") + name + (found == golden.end() ? " (no golden hash)" : "");
  }
  return count == 0 ? "" : std::to_string(count) + " of " + std::to_string(hashes.size()) + " differ: " + differing;
}

std::string run(const weights::Checkpoint& checkpoint, const std::vector<Prompt>& prompts, const Line& line,
                Golden& golden, bool write) {
  const std::string numerics(numerics::short_name(line.cell.numerics));
  auto hashes = run_cell(checkpoint, prompts, line.cell);
  if (!hashes.ok()) return hashes.error().message;
  if (write && !line.negative) {
    for (const auto& [name, hash] : hashes.value()) golden.emplace(numerics + " " + name, hash);
  }
  const std::string differing = compare(hashes.value(), numerics, golden);
  if (!line.negative) return differing;
  return differing.empty() ? "the negative control met every golden hash: this test cannot fail" : "";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: invariance MODEL PROMPTS GOLDEN CELLS [--write]\n");
    return 2;
  }
  const bool write = argc > 5 && std::string(argv[5]) == "--write";
  const auto checkpoint = weights::Checkpoint::open(argv[1]);
  const auto prompts = read_prompts(argv[2]);
  if (!checkpoint.ok() || !prompts.ok()) {
    std::fprintf(stderr, "%s\n", (checkpoint.ok() ? prompts.error() : checkpoint.error()).message.c_str());
    return 2;
  }
  Golden golden = write ? Golden{} : read_golden(argv[3]);
  int passed = 0, failed = 0, skipped = 0;
  for (const Line& line : read_cells(argv[4])) {
    if (!line.missing.empty()) {
      std::printf("skipped  %s: this machine or build lacks it\n", line.missing.c_str());
      ++skipped;
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    const std::string problem = run(checkpoint.value(), prompts.value(), line, golden, write);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%s %6.1f s  %s%s%s\n", problem.empty() ? "passed" : "FAILED", seconds, line.cell.describe().c_str(),
                problem.empty() ? "" : ": ", problem.c_str());
    std::fflush(stdout);
    ++(problem.empty() ? passed : failed);
  }
  if (write) {
    std::ofstream file(argv[3], std::ios::trunc);
    for (const auto& [key, hash] : golden) file << key << " " << hash << "\n";
  }
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed == 0 && passed > 0 ? 0 : 1;
}
