// eadem serve: the flags, and the life of the process from its first signal to its last.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/terminal.h"
#include "server/server.h"

namespace eadem::cli {
namespace {

using server::Server;
using server::ServerOptions;
using std::chrono::milliseconds;

struct Options {
  EngineFlags engine;
  ServerOptions server;
  int drain_seconds = 30;
  std::string ready_file, receipt_key;
};

// A number of seconds for a timeout.
void seconds(Flags& flags, const std::string& names, const std::string& help, int64_t least, milliseconds* target) {
  flags.option(names, "SECONDS", help, [=](const std::string& value) -> Result<void> {
    EADEM_ASSIGN_OR_RETURN(const int64_t number, parse_integer(value, least, 1000000));
    *target = milliseconds(number * 1000);
    return {};
  });
}

void bytes(Flags& flags, const std::string& names, const std::string& help, size_t* target) {
  flags.option(names, "BYTES", help, [=](const std::string& value) -> Result<void> {
    EADEM_ASSIGN_OR_RETURN(*target, parse_bytes(value));
    return {};
  });
}

// '["*"]' as vLLM has it, or a,b.
Result<std::vector<std::string>> parse_list(const std::string& value) {
  const auto json = nlohmann::json::parse(value, nullptr, false);
  std::vector<std::string> out;
  if (json.is_array()) {
    for (const auto& item : json) {
      if (!item.is_string()) return Error{"a JSON array of texts, or texts with commas between them"};
      out.push_back(item.get<std::string>());
    }
    return out;
  }
  for (size_t at = 0; at <= value.size();) {
    const size_t end = std::min(value.find(',', at), value.size());
    if (end > at) out.push_back(value.substr(at, end - at));
    at = end + 1;
  }
  if (out.empty()) return Error{"a JSON array of texts, or texts with commas between them"};
  return out;
}

void list(Flags& flags, const std::string& names, const std::string& help, std::vector<std::string>* target) {
  flags.option(names, "LIST", help, [=](const std::string& value) -> Result<void> {
    EADEM_ASSIGN_OR_RETURN(*target, parse_list(value));
    return {};
  });
}

void texts(Flags& flags, const std::string& names, const std::string& placeholder, const std::string& help,
           std::vector<std::string>* target) {
  flags.repeated(names, placeholder, help, [=](const std::string& value) -> Result<void> {
    if (value.empty()) return Error{"some text"};
    target->push_back(value);
    return {};
  });
}

void add_network_flags(Flags& flags, Options* o) {
  server::WireOptions& wire = o->server.wire;
  flags.text("--host", "ADDRESS", "where to listen; 0.0.0.0 for every interface [127.0.0.1]", &wire.host);
  flags.integer("--port", "0: any free one, printed [8000]", 0, 65535, &wire.port);
  flags.text("--uds", "PATH", "listen on a Unix socket instead", &wire.uds);
  flags.text("--root-path", "PATH", "a prefix that a proxy leaves on the path, as /llm", &wire.root_path);
  texts(flags, "--api-key", "KEY", "clients must send it; may be repeated [EADEM_API_KEY]", &wire.api_keys);
  flags.text("--ssl-certfile", "FILE", "PEM certificate (chain): speak TLS", &wire.tls_certificate);
  flags.text("--ssl-keyfile", "FILE", "its PEM key", &wire.tls_key);
  list(flags, "--allowed-origins", "origins whose pages may call (CORS) [*]", &wire.cors.origins);
  list(flags, "--allowed-methods", "methods that they may use [*]", &wire.cors.methods);
  list(flags, "--allowed-headers", "headers that they may send [*]", &wire.cors.headers);
  flags.flag("--allow-credentials", "they may send cookies and the like", &wire.cors.credentials);
}

void add_limit_flags(Flags& flags, Options* o) {
  server::WireOptions& wire = o->server.wire;
  flags.integer("--max-connections", "open connections; more are refused [4096]", 1, 1000000, &wire.max_connections);
  bytes(flags, "--max-body", "longest body of a request [32M]", &wire.limits.body);
  bytes(flags, "--max-header", "longest header of a request [16K]", &wire.limits.header);
  bytes(flags, "--max-unsent", "of a stream that its client does not read; then it is cut off [4M]", &wire.max_unsent);
  flags.integer("--http-workers", "threads that parse requests and render prompts [2]", 1, 256, &wire.workers);
  seconds(flags, "--keep-alive-timeout", "idle connections close after this [75]", 1, &wire.idle_timeout);
  seconds(flags, "--header-timeout", "for the header of a request to come [10]", 1, &wire.header_timeout);
  seconds(flags, "--body-timeout", "for its body to come [60]", 1, &wire.body_timeout);
  seconds(flags, "--write-timeout", "for a client to take anything [30]", 1, &wire.write_timeout);
  seconds(flags, "--request-timeout", "answers end where they are after this; 0: never [0]", 0,
          &o->server.openai.request_timeout);
  flags.integer("--drain-timeout", "seconds that answers under way get after SIGTERM [30]", 0, 1000000,
                &o->drain_seconds);
  flags.integer("--max-queue,--max-waiting", "requests that may wait; more are answered 429 [1024]", 0, 1 << 20,
                &o->server.service.max_waiting);
  flags.integer("--max-num-seqs", "vLLM's name of --max-batch", 1, 4096, &o->engine.options.max_batch);
  flags.integer("--max-num-batched-tokens", "vLLM's name of --prefill-chunk", 1, 65536,
                &o->engine.options.prefill_chunk);
}

void add_model_flags(Flags& flags, Options* o) {
  server::OpenaiOptions& openai = o->server.openai;
  texts(flags, "--served-model-name", "NAME", "what clients call it; may be repeated [the model's own]",
        &openai.model_names);
  flags.text("--tool-call-parser", "NAME", "hermes, llama3_json or mistral [by the chat template]",
             &openai.tool_parser);
  flags.text("--reasoning-parser", "NAME", "how thoughts are marked [by the chat template]", &openai.reasoning_parser);
  flags.option("--chat-template", "FILE", "use this Jinja template, not the model's",
               [&openai](const std::string& path) -> Result<void> {
                 std::ifstream file(path);
                 openai.chat_template.assign(std::istreambuf_iterator<char>(file), {});
                 if (!file || openai.chat_template.empty()) return Error{"a file that can be read"};
                 return {};
               });
  flags.text("--receipt-key", "FILE", "sign receipts for requests that ask (`receipt`), with this private key",
             &o->receipt_key);
  flags.option("--generation-config", "auto|vllm", "vllm: leave the model's own sampling defaults out [auto]",
               [&openai](const std::string& value) -> Result<void> {
                 if (value != "auto" && value != "vllm") return Error{"auto or vllm"};
                 openai.generation_config = value == "auto";
                 return {};
               });
  // What is so anyway; accepted for scripts that were written for vLLM.
  for (const char* const name : {"--enable-auto-tool-choice", "--enable-prefix-caching", "--enable-chunked-prefill",
                                 "--enable-request-id-headers", "--enable-prompt-tokens-details"}) {
    flags.flag(name, "always on", [] {});
  }
  flags.flag("--no-enable-prefix-caching", "vLLM's name of --no-prefix-cache",
             [o] { o->engine.options.prefix_cache = false; });
}

void add_log_flags(Flags& flags, Options* o) {
  server::LogOptions& log = o->server.log;
  flags.text("--log-file", "FILE", "append the log to it [stderr]", &log.file);
  flags.option("--uvicorn-log-level,--log-level", "LEVEL", "debug, info, warning or error [info]",
               [&log](const std::string& value) -> Result<void> {
                 EADEM_ASSIGN_OR_RETURN(log.level, server::parse_log_level(value));
                 return {};
               });
  flags.flag("--no-log-requests,--disable-log-requests,--disable-uvicorn-access-log", "no line for each request",
             [&log] { log.requests = false; });
  flags.flag("--log-prompts", "log the bodies of requests, which hold prompts", &log.prompts);
  flags.text("--ready-file", "FILE", "holds the address once requests are answered", &o->ready_file);
}

Result<void> check(const Options& o) {
  const server::WireOptions& wire = o.server.wire;
  if (wire.tls_certificate.empty() != wire.tls_key.empty()) {
    return Error{"option --ssl-certfile and --ssl-keyfile go together: give both or none"};
  }
  if (!wire.uds.empty() && !wire.tls_key.empty()) return Error{"option --uds speaks no TLS: leave --ssl-keyfile out"};
  if (!wire.root_path.empty() && (wire.root_path[0] != '/' || wire.root_path.back() == '/')) {
    return Error{"option --root-path is '" + wire.root_path + "'; it must begin with / and not end with one"};
  }
  return {};
}

// Each connection needs a descriptor; the usual limit of 1024 is for programs that use select().
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Signals of the process come to this thread alone, and only where it waits for them.
sigset_t hold_signals() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return ends;
}

// True where the process was asked to end within the time.
bool asked_to_end(const sigset_t& ends, milliseconds within) {
  const auto count = within.count();
  const timespec time{count / 1000, static_cast<long>(count % 1000) * 1000000};
  return ::sigtimedwait(&ends, nullptr, &time) > 0;
}

void tell_ready(const Options& o, const std::string& address) {
  if (!o.ready_file.empty()) {
    // Whole or not at all: a script may read it at any moment.
    const std::string half = o.ready_file + ".part";
    std::ofstream(half) << address << "\n";
    if (std::rename(half.c_str(), o.ready_file.c_str()) != 0) print_note("cannot write " + o.ready_file);
  }
  std::printf("listening on %s\n", address.c_str());
  std::fflush(stdout);
}

constexpr milliseconds kTick(20), kForever(3600000);

// Until all is answered, the time is over, or the process is asked again.
void drain(Server& server, const sigset_t& ends, int limit_seconds) {
  server.drain();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(limit_seconds);
  while (!server.idle() && std::chrono::steady_clock::now() < end) {
    if (asked_to_end(ends, kTick)) return;
  }
}

Result<int> run(Options& o) {
  EADEM_RETURN_IF_ERROR(check(o));
  const char* const key = std::getenv("EADEM_API_KEY");
  if (key != nullptr && *key != '\0') o.server.wire.api_keys.emplace_back(key);
  o.server.service.engine = o.engine.options;
  o.server.openai.version = EADEM_VERSION;
  if (!o.receipt_key.empty()) {
    EADEM_ASSIGN_OR_RETURN(contract::SigningKey signer, contract::SigningKey::load(o.receipt_key));
    o.server.openai.receipt_key = std::make_shared<const contract::SigningKey>(std::move(signer));
  }
  const sigset_t ends = hold_signals();
  raise_descriptor_limit();
  EADEM_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::start(o.server));
  auto loading = std::async(std::launch::async, [&] { return server->load(); });
  bool ending = false;
  while (loading.wait_for(milliseconds(0)) != std::future_status::ready) {
    if (!asked_to_end(ends, kTick)) continue;
    if (std::exchange(ending, true)) std::_Exit(kInterrupted);
  }
  EADEM_RETURN_IF_ERROR(loading.get());
  if (!ending) tell_ready(o, server->address());
  while (!ending) ending = asked_to_end(ends, kForever);
  drain(*server, ends, o.drain_seconds);
  server->stop();
  if (!o.ready_file.empty()) ::unlink(o.ready_file.c_str());
  return 0;
}

}  // namespace

Run add_serve(Flags flags) {
  auto options = std::make_shared<Options>();
  add_network_flags(flags, options.get());
  add_model_flags(flags, options.get());
  add_limit_flags(flags, options.get());
  add_log_flags(flags, options.get());
  options->engine.options.async_scheduling = true;
  options->engine.add(flags);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
