// What connections share with the wire. Only the thread that runs `io` touches it, but for what is atomic.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/http/router.h"
#include "server/http/wire.h"

namespace eadem::server {

class Connection;

struct WireCore {
  explicit WireCore(WireOptions wire_options)
      : options(std::move(wire_options)), io(1), workers(static_cast<size_t>(options.workers)) {}

  const WireOptions options;
  std::vector<std::string> key_digests;  // SHA-256 of each API key
  std::unique_ptr<boost::asio::ssl::context> tls;
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections;
  std::atomic<bool> draining{false}, stopping{false}, starting{true};
  std::atomic<int> busy{0};  // connections with a request under way or a reply not sent
  std::atomic<uint64_t> accepted{0}, refused{0}, open{0};

  // Absent while the server is loading.
  std::shared_ptr<const Router> router() const {
    const std::lock_guard lock(router_mutex);
    return current_router;
  }
  mutable std::mutex router_mutex;
  std::shared_ptr<const Router> current_router;

  // Last, so that what they still hold is destroyed before the rest.
  boost::asio::io_context io;
  boost::asio::thread_pool workers;
};

}  // namespace eadem::server
