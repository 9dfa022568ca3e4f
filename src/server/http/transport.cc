#include "server/http/transport.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace eadem::server {
namespace {

namespace asio = boost::asio;
using asio::redirect_error;
using asio::use_awaitable;

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(Socket socket) : socket_(std::move(socket)) {}

  asio::awaitable<void> handshake(error_code& fault) override {
    fault = {};
    co_return;
  }
  asio::awaitable<size_t> read_some(asio::mutable_buffer into, error_code& fault) override {
    co_return co_await socket_.async_read_some(into, redirect_error(use_awaitable, fault));
  }
  asio::awaitable<size_t> write_some(asio::const_buffer from, error_code& fault) override {
    co_return co_await socket_.async_write_some(from, redirect_error(use_awaitable, fault));
  }
  Socket& socket() override { return socket_; }

 private:
  Socket socket_;
};

class TlsTransport final : public Transport {
 public:
  TlsTransport(Socket socket, asio::ssl::context& context) : stream_(std::move(socket), context) {}

  asio::awaitable<void> handshake(error_code& fault) override {
    co_await stream_.async_handshake(asio::ssl::stream_base::server, redirect_error(use_awaitable, fault));
  }
  asio::awaitable<size_t> read_some(asio::mutable_buffer into, error_code& fault) override {
    co_return co_await stream_.async_read_some(into, redirect_error(use_awaitable, fault));
  }
  asio::awaitable<size_t> write_some(asio::const_buffer from, error_code& fault) override {
    co_return co_await stream_.async_write_some(from, redirect_error(use_awaitable, fault));
  }
  Socket& socket() override { return stream_.next_layer(); }

 private:
  asio::ssl::stream<Socket> stream_;
};

void set_option(int descriptor, int level, int name, int value) {
  ::setsockopt(descriptor, level, name, &value, sizeof value);  // a Unix socket has none of these, and needs none
}

int choose_protocol(SSL* /*ssl*/, const unsigned char** out, unsigned char* size, const unsigned char* in,
                    unsigned int in_size, void* /*unused*/) {
  static constexpr unsigned char kHttp[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  const int found = SSL_select_next_proto(&chosen, size, kHttp, sizeof kHttp - 1, in, in_size);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

}  // namespace

bool Transport::peer_gone(bool half_closed) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket().native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  return info.tcpi_state != TCP_ESTABLISHED && !(half_closed && info.tcpi_state == TCP_CLOSE_WAIT);
}

void Transport::shutdown_send() {
  error_code ignored;
  socket().shutdown(Socket::shutdown_send, ignored);
}

void Transport::close() {
  error_code ignored;
  socket().close(ignored);
}

std::unique_ptr<Transport> make_transport(Socket socket, asio::ssl::context* tls) {
  if (tls == nullptr) return std::make_unique<PlainTransport>(std::move(socket));
  return std::make_unique<TlsTransport>(std::move(socket), *tls);
}

void tune(Socket& socket) {
  constexpr int kIdleSeconds = 30, kIntervalSeconds = 10, kProbes = 3, kUnacknowledgedMs = 60000;
  const int descriptor = socket.native_handle();
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, kIntervalSeconds);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set_option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnacknowledgedMs);
}

std::string peer_name(Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::getpeername(socket.native_handle(), generic, &size) != 0) return "";
  if (address.ss_family == AF_UNIX) return "unix";
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(generic, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "";
  }
  const std::string name = host.data();
  return (address.ss_family == AF_INET6 ? "[" + name + "]" : name) + ":" + port.data();
}

Result<std::unique_ptr<asio::ssl::context>> make_tls_context(const std::string& certificate, const std::string& key) {
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX* const raw = context->native_handle();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(raw, choose_protocol, nullptr);
  error_code fault;
  context->use_certificate_chain_file(certificate, fault);
  if (fault) return Error{"--ssl-certfile " + certificate + ": no usable PEM certificate: " + fault.message()};
  context->use_private_key_file(key, asio::ssl::context::pem, fault);
  if (fault) return Error{"--ssl-keyfile " + key + ": no usable PEM key of that certificate: " + fault.message()};
  if (SSL_CTX_check_private_key(raw) != 1) {
    return Error{"--ssl-keyfile " + key + ": is not the key of the certificate in " + certificate};
  }
  return context;
}

}  // namespace eadem::server
