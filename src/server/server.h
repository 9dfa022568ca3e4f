// `eadem serve` without its command line: a Service, the handlers, the wire, the log and the metrics, joined.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "eadem/service.h"
#include "server/http/wire.h"
#include "server/log.h"
#include "server/openai/routes.h"

namespace eadem::server {

struct ServerOptions {
  WireOptions wire;
  ServiceOptions service;
  LogOptions log;
  OpenaiOptions openai;  // service and metrics are filled in here; without model_names the model's own is served
};

class Server {
 public:
  // Listens from then on; until load() is done /health answers 503 and so does everything that needs the model.
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Opens the model and serves it.
  Result<void> load();

  const std::string& address() const;
  // Refuses new requests; those under way go on.
  void drain();
  // All requests have ended and their replies are sent.
  bool idle() const;
  // Cancels what is under way and closes every connection.
  void stop();
  Log& log();

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace eadem::server
