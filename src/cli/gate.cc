#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "audit/files.h"
#include "audit/gate.h"
#include "audit/report.h"
#include "cli/batch.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/terminal.h"

namespace eadem::cli {
namespace {

using audit::AnswerVerdict;
using audit::Baseline;
using nlohmann::ordered_json;

struct Options {
  EngineFlags engine;
  std::string baseline, corpus, out;
  std::set<std::string> categories;
  std::vector<std::string> trusted;
  std::string reason, key, signer;
  bool record = false, brief = false, overwrite = false, approve = false, json = false;
};

Result<void> check(const Options& o) {
  if (o.baseline.empty()) return Error{"option --baseline is needed: the file to compare with, or to --record"};
  if (o.record && (o.approve || !o.trusted.empty() || !o.out.empty())) {
    return Error{"--record goes without --approve, --trusted-key and --out: it compares nothing"};
  }
  if (!o.record && (o.brief || o.overwrite)) return Error{"--brief and --overwrite go with --record"};
  if (o.approve && (o.reason.empty() || o.key.empty())) {
    return Error{"--approve needs --reason TEXT and --key FILE (made by `eadem keygen`)"};
  }
  if (!o.approve && (!o.reason.empty() || !o.key.empty() || !o.signer.empty())) {
    return Error{"--reason, --key and --signer go with --approve"};
  }
  return {};
}

Result<audit::Corpus> corpus_of(const Options& options) {
  if (options.corpus.empty()) return audit::default_corpus();
  EADEM_ASSIGN_OR_RETURN(audit::Corpus corpus, audit::read_corpus(options.corpus));
  if (corpus.frozen.empty()) {
    return Error{"corpus " + options.corpus + " is not frozen: `eadem corpus freeze " + options.corpus +
                 "` makes it one that a baseline can be of"};
  }
  return corpus;
}

using Requests = std::vector<const audit::CorpusRequest*>;

// Those of the categories asked for, and of `known`, where that is not empty.
Result<Requests> choose(const Options& options, const audit::Corpus& corpus, const std::set<std::string>& known) {
  Requests requests;
  std::set<std::string> missing = options.categories;
  for (const audit::CorpusRequest& request : corpus.requests) {
    missing.erase(request.category);
    if (!options.categories.empty() && options.categories.count(request.category) == 0) continue;
    if (!known.empty() && known.count(request.id) == 0) continue;
    requests.push_back(&request);
  }
  if (!missing.empty()) return Error{"option --category: the corpus has no category '" + *missing.begin() + "'"};
  if (requests.empty()) return Error{"the baseline holds no answer of that --category: record it anew"};
  return requests;
}

// An empty one after an interrupt.
Baseline ask(const Options& options, Engine& engine, const audit::Corpus& corpus, const Requests& requests) {
  catch_interrupts();
  Progress bar;
  Baseline baseline =
      audit::record(engine, corpus, requests, 2 * options.engine.options.max_batch, [&](size_t done, size_t total) {
        bar.show(done, total, std::to_string(done) + " requests");
        return !interrupted();
      });
  bar.clear();
  baseline.program = EADEM_VERSION;
  baseline.model = options.engine.options.model;
  return baseline;
}

Result<int> record(const Options& options, const audit::Corpus& corpus) {
  std::error_code ignored;
  if (std::filesystem::exists(options.baseline, ignored) && !options.overwrite) {
    return Error{"baseline " + options.baseline +
                 " exists: --overwrite replaces it; a change that is meant is told by --approve instead"};
  }
  EADEM_ASSIGN_OR_RETURN(const Requests requests, choose(options, corpus, {}));
  EADEM_ASSIGN_OR_RETURN(Engine engine, options.engine.open());
  Baseline baseline = ask(options, engine, corpus, requests);
  if (baseline.answers.empty()) return kInterrupted;
  baseline.brief = options.brief;
  const auto left_out = std::count_if(baseline.answers.begin(), baseline.answers.end(),
                                      [](const audit::RecordedAnswer& answer) { return !answer.not_run.empty(); });
  if (static_cast<size_t>(left_out) == baseline.answers.size()) {
    return Error{"this model can answer nothing of the corpus: " + baseline.answers.front().not_run};
  }
  EADEM_RETURN_IF_ERROR(audit::write_baseline(options.baseline, baseline));
  const ordered_json object = {{"recorded", options.baseline},
                               {"digest", baseline.digest()},
                               {"answers", baseline.answers.size() - static_cast<size_t>(left_out)},
                               {"not_run", left_out},
                               {"identity", baseline.identity},
                               {"corpus", {{"name", corpus.name}, {"digest", corpus.digest}}}};
  if (options.json) {
    std::puts(to_line(object).c_str());
  } else {
    std::printf("recorded %zu answers in %s (%s, identity %s)\n",
                baseline.answers.size() - static_cast<size_t>(left_out), options.baseline.c_str(),
                baseline.numerics.c_str(), baseline.identity.c_str());
    for (const audit::RecordedAnswer& answer : baseline.answers) {
      if (!answer.not_run.empty()) std::printf("left out: %s: %s\n", answer.id.c_str(), answer.not_run.c_str());
    }
  }
  return end_run(options.engine, engine, 0);
}

struct Keys {
  std::vector<contract::VerifyingKey> trusted;
  std::optional<contract::SigningKey> signing;  // where --approve asks; its public half is trusted
};

// Read before the engine is asked anything, so that a fault is told at once.
Result<Keys> keys_of(const Options& options) {
  Keys keys;
  for (const std::string& path : options.trusted) {
    EADEM_ASSIGN_OR_RETURN(const auto key, contract::VerifyingKey::load(path));
    keys.trusted.push_back(key);
  }
  if (options.approve) {
    EADEM_ASSIGN_OR_RETURN(keys.signing, contract::SigningKey::load(options.key));
    keys.trusted.push_back(keys.signing->verifying_key());
  }
  return keys;
}

audit::Approval approval_of(const Options& options, const audit::GateResult& result, const Baseline& was,
                            const Baseline& is) {
  audit::Approval approval;
  approval.signer = options.signer;
  approval.date = is.date;
  approval.reason = options.reason;
  approval.from = was.digest();
  approval.to = is.digest();
  approval.identity_from = was.identity;
  approval.identity_to = is.identity;
  for (const audit::AnswerResult& answer : result.answers) {
    if (answer.verdict == AnswerVerdict::kDrift) {
      approval.answers[answer.was.name()] = {answer.was.digest(), answer.is.digest()};
    }
  }
  return approval;
}

class Gate {
 public:
  Gate(const Options& options, Engine& engine, const Baseline& was, const Baseline& is)
      : options_(options), engine_(engine), was_(was), is_(is) {}

  Result<void> compare(const Keys& keys);
  Result<int> tell(double seconds);

 private:
  void print() const;
  void print_changes(const char* title, const std::vector<audit::FieldChange>& changes) const;

  const Options& options_;
  Engine& engine_;
  const Baseline& was_;
  const Baseline& is_;
  audit::GateResult result_;
};

Result<void> Gate::compare(const Keys& keys) {
  const std::string path = audit::approvals_path(options_.baseline), digest = was_.digest();
  EADEM_ASSIGN_OR_RETURN(auto approvals, audit::read_approvals(path, digest, keys.trusted));
  result_ = audit::compare(was_, is_, std::move(approvals));
  if (!keys.signing) return {};
  if (result_.drift == 0) return Error{"there is nothing to approve: " + audit::summary_of(result_)};
  EADEM_RETURN_IF_ERROR(audit::append_approval(path, approval_of(options_, result_, was_, is_), *keys.signing));
  EADEM_ASSIGN_OR_RETURN(approvals, audit::read_approvals(path, digest, keys.trusted));
  result_ = audit::compare(was_, is_, std::move(approvals));
  return {};
}

void Gate::print_changes(const char* title, const std::vector<audit::FieldChange>& changes) const {
  if (!changes.empty()) std::printf("%s\n", title);
  for (const audit::FieldChange& change : changes) {
    std::printf("  %s: was %s, is %s\n", change.field.c_str(), change.was.c_str(), change.is.c_str());
  }
}

void Gate::print() const {
  for (const audit::AnswerResult& answer : result_.answers) {
    if (answer.first_difference.is_object()) std::puts(audit::describe(answer, engine_).c_str());
    if (answer.verdict == AnswerVerdict::kNotRun) {
      std::printf("%s: not asked: %s\n", answer.was.name().c_str(), answer.is.not_run.c_str());
    }
  }
  if (result_.identity_changed) print_changes("what changed of the identity:", result_.identity_changes);
  if (result_.drift > 0 && !result_.identity_changed) {
    print_changes("the identity is equal; of the deployment these differ:", result_.deployment_changes);
  }
  for (const audit::Approval& approval : result_.approvals) {
    std::printf("approval of %s by %s (key %s), %zu answers: %s%s\n", approval.date.c_str(),
                approval.signer.empty() ? "its key's holder" : approval.signer.c_str(), approval.key_id.c_str(),
                approval.answers.size(), approval.reason.c_str(),
                approval.counts() ? "" : ("; does not count: " + approval.fault).c_str());
  }
  std::printf("%s (%s)\n", audit::summary_of(result_).c_str(), is_.numerics.c_str());
}

Result<int> Gate::tell(double seconds) {
  ordered_json document = audit::to_json(result_, was_, is_, engine_);
  document["seconds"] = seconds;
  document["command"] = "eadem gate -m " + is_.model + " --baseline " + options_.baseline;
  document["baseline"]["path"] = options_.baseline;
  if (!options_.out.empty()) {
    std::error_code fault;
    std::filesystem::create_directories(options_.out, fault);
    if (fault) return Error{"option --out: cannot make " + options_.out + ": " + fault.message()};
    const std::filesystem::path folder(options_.out);
    const auto text = document.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
    EADEM_RETURN_IF_ERROR(audit::write_whole_file(folder / "gate.json", text));
    EADEM_RETURN_IF_ERROR(audit::write_whole_file(folder / "gate.html", audit::report_page(document)));
  }
  if (options_.json) {
    std::puts(to_line(document).c_str());
  } else {
    print();
  }
  if (result_.passed) return 0;
  print_error(audit::summary_of(result_));
  return kCheckFailed;
}

Result<int> run(const Options& options) {
  EADEM_RETURN_IF_ERROR(check(options));
  EADEM_ASSIGN_OR_RETURN(const audit::Corpus corpus, corpus_of(options));
  if (options.record) return record(options, corpus);
  EADEM_ASSIGN_OR_RETURN(const Baseline was, audit::read_baseline(options.baseline, corpus));
  std::set<std::string> known;
  for (const audit::RecordedAnswer& answer : was.answers) known.insert(answer.id);
  EADEM_ASSIGN_OR_RETURN(const Requests requests, choose(options, corpus, known));
  EADEM_ASSIGN_OR_RETURN(const Keys keys, keys_of(options));
  EngineFlags flags = options.engine;
  if (flags.options.numerics == "auto" && flags.options.mode == was.mode) flags.options.numerics = was.numerics;
  const Progress clock;
  EADEM_ASSIGN_OR_RETURN(Engine engine, flags.open());
  const Baseline is = ask(options, engine, corpus, requests);
  if (is.answers.empty()) return kInterrupted;
  Gate gate(options, engine, was, is);
  EADEM_RETURN_IF_ERROR(gate.compare(keys));
  EADEM_ASSIGN_OR_RETURN(const int status, gate.tell(clock.seconds()));
  return end_run(flags, engine, status);
}

void add_approval_flags(Flags& flags, Options* o) {
  flags.repeated("--trusted-key", "FILE", "a public key whose approvals count; may be given several times",
                 [o](const std::string& value) -> Result<void> {
                   o->trusted.push_back(value);
                   return {};
                 });
  flags.flag("--approve", "record that what drifted is meant, beside the baseline in approvals.jsonl", &o->approve);
  flags.text("--reason", "TEXT", "approve: why", &o->reason);
  flags.text("--key", "FILE", "approve: the private key that seals it (`eadem keygen`)", &o->key);
  flags.text("--signer", "NAME", "approve: who, in words; the key is what proves it", &o->signer);
}

}  // namespace

Run add_gate(Flags flags) {
  auto options = std::make_shared<Options>();
  Options* const o = options.get();
  flags.text("--baseline", "FILE", "the answers to compare with; its numerics are used", &o->baseline);
  flags.text("--corpus", "DIR", "a frozen corpus [the one in the program]", &o->corpus);
  flags.repeated("--category", "NAME", "requests of this category alone; may be given several times",
                 [o](const std::string& value) -> Result<void> {
                   o->categories.insert(value);
                   return {};
                 });
  flags.flag("--record", "write the baseline instead of comparing with it", &o->record);
  flags.flag("--brief", "record: tokens and hashes alone, a small file that tells no distances", &o->brief);
  flags.flag("--overwrite", "record: replace the file", &o->overwrite);
  add_approval_flags(flags, o);
  flags.text("--out", "DIR", "write gate.json and gate.html there", &o->out);
  flags.flag("--json", "the outcome as a JSON object", &o->json);
  o->engine.add(flags);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
