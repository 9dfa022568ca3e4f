#include "server/http/wire.h"

#include <openssl/sha.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>
#include <thread>
#include <utility>

#include "server/http/connection.h"
#include "server/http/listen.h"
#include "server/http/transport.h"
#include "server/http/wire_core.h"

namespace eadem::server {
namespace {

namespace asio = boost::asio;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

constexpr auto kSweep = std::chrono::milliseconds(100);
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // where the system has no file descriptor left
constexpr std::string_view kFull =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 113\r\nRetry-After: 1\r\n"
    "Connection: close\r\n\r\n"
    R"({"error":{"message":"too many open connections","type":"service_unavailable_error",)"
    R"("param":null,"code":null}}    )";

// Tells a client that there is no room, as far as that can be told without waiting.
void turn_away(Socket& socket, bool tls) {
  if (tls) return;
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::const_buffer(kFull.data(), kFull.size()), ignored);
  socket.shutdown(Socket::shutdown_send, ignored);
}

asio::awaitable<void> accept_loop(std::shared_ptr<WireCore> core, Acceptor& acceptor) {
  while (!core->stopping) {
    error_code fault;
    Socket socket(core->io);
    co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, fault));
    if (core->stopping || fault == asio::error::operation_aborted) co_return;
    if (fault) {
      asio::steady_timer pause(core->io, kAcceptPause);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, fault));
      continue;
    }
    ++core->accepted;
    if (core->open >= static_cast<uint64_t>(core->options.max_connections)) {
      ++core->refused;
      turn_away(socket, core->tls != nullptr);
      continue;
    }
    tune(socket);
    std::string peer = peer_name(socket);
    auto transport = make_transport(std::move(socket), core->tls.get());
    std::make_shared<Connection>(core, std::move(transport), std::move(peer))->start();
  }
}

std::vector<std::shared_ptr<Connection>> all_connections(const WireCore& core) {
  std::vector<std::shared_ptr<Connection>> all;
  for (const auto& [key, weak] : core.connections) {
    if (auto connection = weak.lock()) all.push_back(std::move(connection));
  }
  return all;
}

asio::awaitable<void> sweep_loop(std::shared_ptr<WireCore> core, asio::steady_timer& timer) {
  while (!core->stopping) {
    error_code ignored;
    timer.expires_after(kSweep);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    const auto now = Connection::Clock::now();
    for (const auto& connection : all_connections(*core)) connection->check_time(now);
  }
}

std::string digest(const std::string& key) {
  std::string out(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), reinterpret_cast<unsigned char*>(out.data()));
  return out;
}

// An exception that reaches this thread is of one connection (memory ran out); the others go on.
void serve(asio::io_context& io) {
  while (true) {
    try {
      io.run();
      return;
    } catch (const std::exception&) {
      continue;
    }
  }
}

}  // namespace

struct Wire::State {
  explicit State(WireOptions options)
      : core(std::make_shared<WireCore>(std::move(options))), work(asio::make_work_guard(core->io)), sweep(core->io) {}

  std::shared_ptr<WireCore> core;
  Listener listener;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  asio::steady_timer sweep;
  std::vector<std::unique_ptr<Acceptor>> acceptors;
  std::thread thread;
};

Wire::Wire(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Wire>> Wire::open(WireOptions options) {
  auto state = std::make_unique<State>(std::move(options));
  const std::shared_ptr<WireCore> core = state->core;
  for (const std::string& key : core->options.api_keys) core->key_digests.push_back(digest(key));
  const bool tls = !core->options.tls_certificate.empty() || !core->options.tls_key.empty();
  if (tls) {
    EADEM_ASSIGN_OR_RETURN(core->tls, make_tls_context(core->options.tls_certificate, core->options.tls_key));
  }
  if (core->options.uds.empty()) {
    EADEM_ASSIGN_OR_RETURN(state->listener, listen_tcp(core->options.host, core->options.port, tls));
  } else {
    EADEM_ASSIGN_OR_RETURN(state->listener, listen_unix(core->options.uds));
  }
  for (const Listener::Bound& bound : state->listener.bound) {
    auto acceptor = std::make_unique<Acceptor>(core->io);
    acceptor->assign(asio::generic::stream_protocol(bound.family, bound.protocol), bound.descriptor);
    asio::co_spawn(core->io, accept_loop(core, *acceptor), asio::detached);
    state->acceptors.push_back(std::move(acceptor));
  }
  asio::co_spawn(core->io, sweep_loop(core, state->sweep), asio::detached);
  state->thread = std::thread([core] { serve(core->io); });
  return std::unique_ptr<Wire>(new Wire(std::move(state)));
}

Wire::~Wire() { stop(); }

void Wire::set_routes(std::vector<Route> routes, bool starting) {
  auto router = std::make_shared<const Router>(std::move(routes));
  const std::lock_guard lock(state_->core->router_mutex);
  state_->core->current_router.swap(router);
  state_->core->starting = starting;
}

const std::string& Wire::address() const { return state_->listener.address; }
int Wire::port() const { return state_->listener.port; }
bool Wire::idle() const { return state_->core->busy == 0; }

HttpCounts Wire::counts() const {
  const WireCore& core = *state_->core;
  return {.open = core.open, .accepted = core.accepted, .refused = core.refused};
}

void Wire::drain() {
  state_->core->draining = true;
  asio::post(state_->core->io, [core = state_->core] {
    for (const auto& connection : all_connections(*core)) connection->drain();
  });
}

void Wire::stop() {
  if (!state_->thread.joinable()) return;
  WireCore& core = *state_->core;
  core.stopping = true;
  std::promise<void> cut;
  asio::post(core.io, [&] {
    for (const auto& acceptor : state_->acceptors) {
      error_code ignored;
      acceptor->close(ignored);
    }
    state_->sweep.cancel();
    for (const auto& connection : all_connections(core)) connection->cut("the server stops");
    cut.set_value();
  });
  cut.get_future().wait();
  core.workers.stop();
  core.workers.join();
  state_->work.reset();
  state_->thread.join();
  if (!core.options.uds.empty()) remove_socket(core.options.uds);
}

}  // namespace eadem::server
