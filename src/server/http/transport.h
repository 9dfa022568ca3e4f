// A connected socket, plain or with TLS. One read and one write may be under way at a time, both from the thread that
// runs the executor.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/system/error_code.hpp>
#include <memory>
#include <string>

#include "core/result.h"

namespace eadem::server {

using Socket = boost::asio::generic::stream_protocol::socket;
using boost::system::error_code;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual boost::asio::awaitable<void> handshake(error_code& fault) = 0;
  // Bytes read; 0 only with a fault (the end of the stream is one).
  virtual boost::asio::awaitable<size_t> read_some(boost::asio::mutable_buffer into, error_code& fault) = 0;
  virtual boost::asio::awaitable<size_t> write_some(boost::asio::const_buffer from, error_code& fault) = 0;

  virtual Socket& socket() = 0;
  // Whether the peer has closed or reset the connection, told by the system without reading. half_closed: that it sends
  // no more is known already.
  bool peer_gone(bool half_closed);
  // No more will be sent; what was sent still goes out.
  void shutdown_send();
  // Everything under way ends with an error.
  void close();
};

std::unique_ptr<Transport> make_transport(Socket socket, boost::asio::ssl::context* tls);

// Keepalive, no delay, a limit for data that is not acknowledged.
void tune(Socket& socket);
// "127.0.0.1:1234", "unix".
std::string peer_name(Socket& socket);

// A server's context: TLS 1.2 and later, http/1.1 by ALPN. Errors name the file.
Result<std::unique_ptr<boost::asio::ssl::context>> make_tls_context(const std::string& certificate,
                                                                    const std::string& key);

}  // namespace eadem::server
