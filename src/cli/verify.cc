// eadem verify: receipts are checked, and their answers computed again.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include "audit/verify.h"
#include "cli/batch.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/jsonl.h"
#include "cli/terminal.h"
#include "contract/json_text.h"
#include "weights/message.h"

namespace eadem::cli {
namespace {

using audit::ReceiptVerdict;
using audit::Verification;
using nlohmann::ordered_json;

struct Options {
  EngineFlags engine;
  std::string file, key, answers;
  audit::VerifyOptions verify;
  bool signature_only = false, json = false;
};

struct Entry {
  int64_t line = 0;
  Verification result;
};

class Verify {
 public:
  explicit Verify(const Options& options) : options_(options) {}

  Result<int> run();

 private:
  Result<bool> read_spread();
  Result<void> read();
  Result<void> read_answers();
  void add(int64_t line, const std::string& text);
  Result<void> compute();
  Result<void> compute_under(const std::string& numerics, const std::vector<Verification*>& receipts);
  void tell(const Entry& entry);
  int finish();

  const Options& options_;
  std::optional<contract::VerifyingKey> key_;
  audit::KnownRequests requests_;
  std::deque<Entry> entries_;  // never moved
  ordered_json runs_ = ordered_json::array();
};

void Verify::add(int64_t line, const std::string& text) {
  const auto envelopes = audit::envelopes_of(text);
  if (!envelopes.ok()) {
    Entry& entry = entries_.emplace_back();
    entry.line = line;
    entry.result.verdict = ReceiptVerdict::kNoEnvelope;
    entry.result.message = envelopes.error().message;
    return;
  }
  for (const std::string& envelope : envelopes.value()) {
    entries_.push_back({line, audit::open_receipt(envelope, key_ ? &*key_ : nullptr)});
    Verification& result = entries_.back().result;
    if (result.verdict != ReceiptVerdict::kOpen) continue;
    if (options_.signature_only) {
      result.verdict = ReceiptVerdict::kSigned;
    } else if (!result.receipt.has_contents && !requests_.fill(result.receipt)) {
      result.verdict = ReceiptVerdict::kNoRequest;
      result.message = "holds hashes alone: give its request with --answers FILE";
    }
  }
}

// One envelope that is spread over the lines of the file. False: it holds something else.
Result<bool> Verify::read_spread() {
  constexpr size_t kLargest = size_t{64} << 20;
  EADEM_ASSIGN_OR_RETURN(LineReader reader, LineReader::open(options_.file));
  std::string line, whole;
  if (!reader.next(whole) || contract::parse_json(whole).ok()) return false;
  while (whole.size() < kLargest && reader.next(line)) whole += "\n" + line;
  if (!contract::parse_json(whole).ok()) return false;
  add(1, whole);
  return true;
}

Result<void> Verify::read() {
  EADEM_ASSIGN_OR_RETURN(const bool done, read_spread());
  if (done) return {};
  EADEM_ASSIGN_OR_RETURN(LineReader reader, LineReader::open(options_.file));
  for (std::string line; reader.next(line);) add(reader.line_number(), line);
  if (entries_.empty()) return Error{options_.file + " holds no receipt"};
  return {};
}

Result<void> Verify::read_answers() {
  if (options_.answers.empty()) return {};
  EADEM_ASSIGN_OR_RETURN(LineReader reader, LineReader::open(options_.answers));
  for (std::string line; reader.next(line);) {
    const auto where = options_.answers + ", line " + std::to_string(reader.line_number()) + ": ";
    const auto answer = contract::parse_json(line);
    if (!answer.ok()) return Error{where + answer.error().message};
    if (answer.value().contains("error")) continue;
    if (const auto added = requests_.add(answer.value()); !added.ok()) return Error{where + added.error().message};
  }
  return {};
}

Result<void> Verify::compute_under(const std::string& numerics, const std::vector<Verification*>& receipts) {
  EngineFlags flags = options_.engine;
  flags.options.numerics = numerics;
  EADEM_ASSIGN_OR_RETURN(Engine engine, flags.open());
  Progress bar;
  const size_t all = receipts.size();
  audit::verify_receipts(engine, options_.verify, receipts, 2 * flags.options.max_batch, [&] {
    size_t done = 0;
    for (const Verification* result : receipts) done += result->verdict != ReceiptVerdict::kOpen ? 1 : 0;
    bar.show(done, all, std::to_string(done) + " of " + std::to_string(all) + " receipts");
    return !interrupted();
  });
  bar.clear();
  const Counters counters = engine.counters();
  runs_.push_back({{"numerics", engine.info().numerics},
                   {"mode", engine.info().mode},
                   {"isa", engine.info().isa},
                   {"threads", engine.info().threads},
                   {"fingerprint", engine.identity()},
                   {"steps", counters.steps},
                   {"mixed_steps", counters.mixed_steps},
                   {"max_sequences", counters.max_sequences}});
  const auto status = end_run(flags, engine, 0);
  return status.ok() ? Result<void>() : Result<void>(Error{status.error()});
}

// Under each receipt's own numerics, or the one that was asked for.
Result<void> Verify::compute() {
  std::vector<std::pair<std::string, std::vector<Verification*>>> groups;
  for (Entry& entry : entries_) {
    if (entry.result.verdict != ReceiptVerdict::kOpen) continue;
    std::string numerics = options_.engine.options.numerics;
    if (numerics == "auto") numerics = entry.result.receipt.identity_parts.value("numerics", std::string("none"));
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == numerics; });
    if (group == groups.end()) group = groups.insert(groups.end(), {numerics, {}});
    group->second.push_back(&entry.result);
  }
  for (const auto& [numerics, receipts] : groups) EADEM_RETURN_IF_ERROR(compute_under(numerics, receipts));
  return {};
}

std::string words(const Verification& result) {
  switch (result.verdict) {
    case ReceiptVerdict::kEqual: return "equal: every step, the text and the end are the same";
    case ReceiptVerdict::kSigned: return "signed by " + result.key_id + "; nothing was computed";
    case ReceiptVerdict::kOpen: return "interrupted";
    case ReceiptVerdict::kDifferent:
      return "different under " + std::string(result.other_fields.empty() ? "the same" : "another") +
             " identity: " + result.message;
    default: return result.message;
  }
}

void Verify::tell(const Entry& entry) {
  const Verification& result = entry.result;
  const bool many = entries_.size() > 1;
  std::string name = many ? "line " + std::to_string(entry.line) : options_.file;
  if (many && !result.receipt.id.empty()) name += " (" + weights::quote(result.receipt.id) + ")";
  const std::string text = name + ": " + words(result) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

ordered_json to_json(const Entry& entry) {
  const Verification& result = entry.result;
  ordered_json object = {{"line", entry.line}, {"verdict", audit::to_string(result.verdict)}};
  if (!result.message.empty()) object["message"] = result.message;
  if (!result.other_fields.empty()) object["other_fields"] = result.other_fields;
  if (!result.first_difference.is_null()) object["first_difference"] = result.first_difference;
  object["signature"] = result.key_id.empty() ? "not checked" : "good";
  const contract::Receipt& receipt = result.receipt;
  if (receipt.identity.empty()) {
    object["signature"] = nullptr;  // there is no receipt to speak of
    return object;
  }
  if (!result.key_id.empty()) object["key_id"] = result.key_id;
  if (!receipt.id.empty()) object["id"] = receipt.id;
  object.update(ordered_json{{"index", receipt.index},
                             {"made", receipt.made},
                             {"prompt_tokens", receipt.prompt_tokens},
                             {"output_tokens", receipt.output_tokens},
                             {"fingerprint", receipt.identity}});
  return object;
}

int Verify::finish() {
  size_t good = 0, bad = 0;
  for (const Entry& entry : entries_) {
    const ReceiptVerdict verdict = entry.result.verdict;
    if (verdict == ReceiptVerdict::kEqual || verdict == ReceiptVerdict::kSigned) {
      ++good;
    } else if (!audit::is_bad_input(verdict)) {
      ++bad;
    }
  }
  const size_t all = entries_.size();
  const std::string what = options_.signature_only ? "signed" : "equal";
  if (options_.json) {
    ordered_json results = ordered_json::array();
    for (const Entry& entry : entries_) results.push_back(to_json(entry));
    std::puts(to_line({{"verified", good == all},
                       {"receipts", all},
                       {what, good},
                       {"beside", options_.verify.beside},
                       {"results", results},
                       {"runs", runs_}})
                  .c_str());
  } else {
    for (const Entry& entry : entries_) tell(entry);
    if (all > 1) std::printf("%zu of %zu receipts are %s\n", good, all, what.c_str());
    if (!key_) std::puts("no signature was checked: give the signer's public key with --key");
  }
  if (good == all) return 0;
  print_error(std::to_string(all - good) + " of " + std::to_string(all) + " receipts are not verified" +
              (all == 1 ? ": " + std::string(audit::to_string(entries_.front().result.verdict)) : ""));
  return bad > 0 ? kCheckFailed : kBadInput;
}

Result<int> Verify::run() {
  if (options_.file == "-") return Error{"RECEIPT must be a file: it may be read twice"};
  if (options_.signature_only && options_.key.empty()) return Error{"--signature-only needs --key FILE"};
  if (!options_.key.empty()) {
    EADEM_ASSIGN_OR_RETURN(key_, contract::VerifyingKey::load(options_.key));
  }
  EADEM_RETURN_IF_ERROR(read_answers());
  EADEM_RETURN_IF_ERROR(read());
  catch_interrupts();
  EADEM_RETURN_IF_ERROR(compute());
  const int status = finish();
  return interrupted() ? kInterrupted : status;
}

}  // namespace

Run add_verify(Flags flags) {
  auto options = std::make_shared<Options>();
  flags.positional("RECEIPT", "a file of receipts, or of answers that hold some, one a line", &options->file, true);
  flags.text("--key", "FILE", "the signer's public key; without it no signature is checked", &options->key);
  flags.flag("--signature-only", "check signatures and contents, compute nothing", &options->signature_only);
  flags.integer("--beside", "other requests that run at the same time [0]", 0, 4096, &options->verify.beside);
  flags.text("--answers", "FILE", "answers of `eadem generate --json`: the requests of receipts that hold hashes alone",
             &options->answers);
  flags.flag("--despite-identity", "compute again although model or numerics are others than the receipt's",
             &options->verify.despite_identity);
  flags.option("--chat-template", "FILE", "use this Jinja template, not the model's, as the server that signed did",
               [o = options.get()](const std::string& path) -> Result<void> {
                 std::ifstream file(path);
                 o->engine.options.chat_template.assign(std::istreambuf_iterator<char>(file), {});
                 if (!file || o->engine.options.chat_template.empty()) return Error{"a file that can be read"};
                 return {};
               });
  flags.flag("--json", "the outcome as a JSON object", &options->json);
  options->engine.add(flags);
  return [options] { return Verify(*options).run(); };
}

}  // namespace eadem::cli
