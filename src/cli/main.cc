// eadem COMMAND [OPTIONS]
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "cli/command.h"
#include "cli/terminal.h"

namespace eadem::cli {
namespace {

struct Command {
  const char* name;
  const char* help;
  const char* example;
  Run (*add)(Flags);
};

constexpr Command kCommands[] = {
    {"pull", "Fetch a model into the cache", "eadem pull smollm2-135m", add_pull},
    {"generate", "Answer one prompt, or a file of requests",
     "eadem generate --temperature 0 \"Why is the sky blue?\"\n  eadem generate --in questions.jsonl --out "
     "answers.jsonl",
     add_generate},
    {"chat", "Hold a conversation in the terminal", "eadem chat --system \"You are a pirate.\"", add_chat},
    {"serve", "Serve a model over HTTP, with OpenAI's API", "eadem serve -m smollm2-135m --port 8000", add_serve},
    {"score", "Logprobs of given tokens, equal to those of generation",
     "echo '{\"prompt\": \"Paris is in\", \"completion\": \" France\"}' | eadem score --in -", add_score},
    {"replay", "Run the answers of an output file again and compare the bits", "eadem replay answers.jsonl --threads 1",
     add_replay},
    {"verify", "Check receipts, and compute their answers again", "eadem verify receipts.jsonl --key signer.key.pub",
     add_verify},
    {"keygen", "Make a pair of keys that sign receipts", "eadem keygen --out signer.key", add_keygen},
    {"corpus", "Keep the requests that the drift gate asks",
     "eadem corpus add questions/ short.jsonl && eadem corpus freeze questions/", add_corpus},
    {"gate", "Ask the frozen corpus again and tell what drifted from a baseline",
     "eadem gate --baseline baseline.json --record\n  eadem gate --baseline baseline.json --out report/", add_gate},
    {"info", "The machine, its kernel sets and numerics; with -m a model and its identity",
     "eadem info -m smollm2-135m --json", add_info},
    {"accept", "The acceptance matrix: what may not move an answer, tried",
     "eadem accept -m smollm2-135m --matrix quick --out accepted", add_accept},
    {"bench", "Speed of prefill and decode", "eadem bench --batch 1,4,16 --json", add_bench},
    {"cost", "What the contract costs: paired runs beside free order",
     "eadem cost -m smollm2-135m --pairs 40 --html cost.html\n  eadem cost before.json now.json", add_cost},
    {"diff", "The strongest level at which two runs are the same: bits, tokens, distribution, quality",
     "eadem diff a.jsonl b.jsonl\n  eadem diff a.jsonl b.jsonl --level distribution --html diff.html", add_diff},
    {"near-tie", "Where free-order arithmetic could draw another token, and where it does",
     "eadem near-tie -m smollm2-135m --html near-ties.html", add_near_tie},
};

std::string command_names() {
  std::string names;
  for (const Command& command : kCommands) {
    if (&command != kCommands) names += &command == std::end(kCommands) - 1 ? " or " : ", ";
    names += command.name;
  }
  return names;
}

int bad_usage(const std::string& message) {
  print_error(message);
  return kBadInput;
}

// CLI11's faults in this program's words. `where` names the command whose help tells more.
int explain(const CLI::ParseError& fault, const CLI::App& chosen, const std::string& where) {
  const std::string help = ": see `" + where + " --help`";
  const auto rest = chosen.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&fault) != nullptr && !rest.empty()) {
    const bool option = rest.front().size() > 1 && rest.front()[0] == '-';
    return bad_usage((option ? "unknown option '" : "unexpected argument '") + rest.front() + "'" + help);
  }
  std::string message = fault.what();
  if (const size_t at = message.find(": ");
      dynamic_cast<const CLI::ValidationError*>(&fault) != nullptr && at != std::string::npos) {
    return bad_usage("option " + message.substr(0, at) + " " + message.substr(at + 2));
  }
  return bad_usage(message + help);
}

int run(int argc, char** argv) {
  CLI::App app("Eadem: language model inference with the same bits however it runs", "eadem");
  app.set_version_flag("--version", std::string("eadem ") + EADEM_VERSION);
  app.require_subcommand(0, 1);
  app.footer("`eadem COMMAND --help` tells the options of a command, with an example.");
  Run chosen;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.help);
    sub->footer(std::string("Example:\n  ") + command.example);
    sub->parse_complete_callback([&chosen, sub, run = command.add(Flags(sub))] {
      if (sub->parsed()) chosen = run;
    });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    app.exit(success);
    return 0;
  } catch (const CLI::ParseError& fault) {
    const auto subs = app.get_subcommands();
    return explain(fault, subs.empty() ? app : *subs.front(),
                   subs.empty() ? "eadem" : "eadem " + subs.front()->get_name());
  }
  if (!chosen) return bad_usage("a command is needed: " + command_names() + " (see `eadem --help`)");
  const auto status = chosen();
  return status.ok() ? status.value() : bad_usage(status.error().message);
}

}  // namespace
}  // namespace eadem::cli

namespace {

// A daemon may start the program without its standard files: a file that is opened later must not become one of them.
void open_standard_files() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) == -1 && ::open("/dev/null", O_RDWR) != descriptor) std::abort();
  }
}

int guarded_run(int argc, char** argv) {
  try {
    return eadem::cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    eadem::cli::print_error("out of memory: lower --max-batch, --kv-memory or logprobs");
  } catch (const std::exception& error) {
    eadem::cli::print_error("cannot go on: " + std::string(error.what()));
  }
  return eadem::cli::kBadInput;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_files();
  const int status = guarded_run(argc, argv);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  eadem::cli::print_error("cannot write to standard output: is the disk full?");
  return eadem::cli::kBadInput;
}
