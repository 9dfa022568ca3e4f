#include "server/server.h"

#include <atomic>
#include <utility>

#include "api/receipts.h"
#include "server/http/response.h"
#include "server/metrics.h"
#include "server/page.h"

namespace eadem::server {
namespace {

constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";
constexpr const char* kJson = "application/json";

}  // namespace

struct Server::State {
  explicit State(ServerOptions server_options) : options(std::move(server_options)) {}

  const char* phase() const {
    if (draining) return "draining";
    return loaded.load() == nullptr ? "loading" : "ready";
  }

  Metrics::Moment moment() const {
    Metrics::Moment moment;
    if (const Service* const running = loaded.load()) {
      moment.engine = &running->engine();
      moment.service = running->stats();
    }
    moment.model = options.openai.model_names.empty() ? options.service.engine.model : options.openai.model_names[0];
    moment.version = options.openai.version;
    moment.state = phase();
    moment.max_num_seqs = options.service.engine.max_batch;
    moment.http = wire->counts();
    moment.log_dropped = log->dropped();
    return moment;
  }

  void health(Reply& reply) const {
    const bool ready = loaded.load() != nullptr && !draining;
    const std::string body = std::string(R"({"status":")") + phase() + "\"}";
    reply.send(ready ? 200 : 503, kJson, body, ready ? Headers{} : Headers{{"Retry-After", "1"}});
  }

  // What is there before the model is.
  std::vector<Route> own_routes() {
    using Shared = std::shared_ptr<Reply>;
    std::vector<Route> routes = page_routes();
    const auto add = [&](const char* method, const char* path, bool open, auto answer) {
      routes.push_back(
          {method, path, [answer](const HttpRequest& /*request*/, const Shared& reply) { answer(*reply); }, open});
    };
    add("GET", "/health", true, [this](Reply& reply) { health(reply); });
    add("GET", "/ping", true, [this](Reply& reply) { health(reply); });
    add("POST", "/ping", true, [this](Reply& reply) { health(reply); });
    add("GET", "/version", true,
        [this](Reply& reply) { reply.send(200, kJson, "{\"version\":" + json_string(options.openai.version) + "}"); });
    add("GET", "/metrics", true,
        [this](Reply& reply) { reply.send(200, kPrometheusType, metrics.prometheus(moment())); });
    add("GET", "/v1/stats", false, [this](Reply& reply) { reply.send(200, kJson, metrics.stats_json(moment())); });
    return routes;
  }

  ServerOptions options;
  Metrics metrics;
  std::unique_ptr<Log> log;
  std::unique_ptr<Service> service;
  std::atomic<const Service*> loaded{nullptr};
  std::atomic<bool> draining{false};
  std::unique_ptr<Wire> wire;
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  auto state = std::make_unique<State>(std::move(options));
  EADEM_ASSIGN_OR_RETURN(state->log, Log::open(state->options.log));
  WireOptions wire = state->options.wire;
  wire.keep_bodies = state->options.log.prompts;
  wire.on_finished = [s = state.get()](const RequestRecord& record) {
    s->metrics.replied(record.status);
    s->log->request(record);
  };
  EADEM_ASSIGN_OR_RETURN(state->wire, Wire::open(std::move(wire)));
  state->wire->set_routes(state->own_routes(), true);
  const std::string address = state->wire->address();
  state->log->event(LogLevel::kInfo, "listening", "\"address\":" + json_string(address));
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Result<void> Server::load() {
  State& state = *state_;
  const auto start = std::chrono::steady_clock::now();
  OpenaiOptions& openai = state.options.openai;
  if (!openai.chat_template.empty()) state.options.service.engine.chat_template = openai.chat_template;
  EADEM_ASSIGN_OR_RETURN(state.service, Service::open(state.options.service));
  if (openai.receipt_key != nullptr) EADEM_RETURN_IF_ERROR(api::check_receipts(state.service->engine().info()));
  openai.service = state.service.get();
  openai.metrics = &state.metrics;
  if (openai.model_names.empty()) openai.model_names = {state.options.service.engine.model};
  std::vector<Route> routes = state.own_routes();
  for (Route& route : openai_routes(openai)) routes.push_back(std::move(route));
  state.wire->set_routes(std::move(routes));
  state.loaded = state.service.get();  // last: whom /health tells that the server is ready finds every route
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Engine& engine = state.service->engine();
  state.log->event(
      LogLevel::kInfo, "ready",
      "\"model\":" + json_string(openai.model_names[0]) + ",\"numerics\":" + json_string(engine.info().numerics) +
          ",\"fingerprint\":" + json_string(engine.identity()) + ",\"load_seconds\":" + std::to_string(seconds));
  return {};
}

// The wire goes first: its handlers use everything else. Replies that the service still fills are cut off by then.
Server::~Server() { stop(); }

const std::string& Server::address() const { return state_->wire->address(); }
Log& Server::log() { return *state_->log; }

void Server::drain() {
  if (state_->draining.exchange(true)) return;
  state_->log->event(LogLevel::kInfo, "draining");
  state_->wire->drain();
  if (state_->service != nullptr) state_->service->drain();
}

bool Server::idle() const { return state_->wire->idle() && (state_->service == nullptr || state_->service->idle()); }

void Server::stop() {
  if (state_->wire == nullptr) return;
  state_->wire->stop();
  state_->loaded = nullptr;
  state_->service.reset();
  state_->wire.reset();
  state_->log->event(LogLevel::kInfo, "stopped");
}

}  // namespace eadem::server
