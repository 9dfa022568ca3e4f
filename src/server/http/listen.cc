#include "server/http/listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace eadem::server {
namespace {

constexpr int kBacklog = 4096;

std::string system_message() { return std::strerror(errno); }

void set_port(sockaddr* address, int port) {
  const auto number = htons(static_cast<uint16_t>(port));
  if (address->sa_family == AF_INET) reinterpret_cast<sockaddr_in*>(address)->sin_port = number;
  if (address->sa_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(address)->sin6_port = number;
}

int bound_port(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

// A socket that listens, or -1 with errno.
int listen_on(const sockaddr* address, socklen_t size, int protocol) {
  const int descriptor = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, protocol);
  if (descriptor < 0) return -1;
  const int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->sa_family == AF_INET6) ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(descriptor, address, size) == 0 && ::listen(descriptor, kBacklog) == 0) return descriptor;
  const int fault = errno;
  ::close(descriptor);
  errno = fault;
  return -1;
}

void close_all(const Listener& listener) {
  for (const Listener::Bound& bound : listener.bound) ::close(bound.descriptor);
}

}  // namespace

Result<Listener> listen_tcp(const std::string& host, int port, bool tls) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  const std::string service = std::to_string(port);
  const int fault = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &hints, &found);
  if (fault != 0) return Error{"--host " + host + ": no such address: " + ::gai_strerror(fault)};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  Listener listener;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (listener.port != 0) set_port(each->ai_addr, listener.port);
    const int descriptor = listen_on(each->ai_addr, each->ai_addrlen, each->ai_protocol);
    if (descriptor < 0) {
      // A name may stand for an address of a family that this machine has not.
      if (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT) continue;
      const std::string why = system_message();
      close_all(listener);
      return Error{"cannot listen on " + host + ":" + service + ": " + why + "; choose another --port or --host"};
    }
    listener.bound.push_back({descriptor, each->ai_family, each->ai_protocol});
    listener.port = bound_port(descriptor);
  }
  if (listener.bound.empty()) return Error{"--host " + host + ": is no address of this machine"};
  const bool bracket = host.find(':') != std::string::npos;
  const std::string name = host.empty() ? "0.0.0.0" : bracket ? "[" + host + "]" : host;
  listener.address = (tls ? "https://" : "http://") + name + ":" + std::to_string(listener.port);
  return listener;
}

Result<Listener> listen_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Error{"--uds " + path + ": a socket's path has at most " + std::to_string(sizeof address.sun_path - 1) +
                 " bytes"};
  }
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) return Error{"--uds " + path + ": there is a file that is no socket; remove it"};
    const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool alive = probe >= 0 && ::connect(probe, generic, sizeof address) == 0;
    if (probe >= 0) ::close(probe);
    if (alive) return Error{"--uds " + path + ": another server listens there"};
    ::unlink(path.c_str());
  }
  const int descriptor = listen_on(generic, sizeof address, 0);
  if (descriptor < 0) return Error{"--uds " + path + ": cannot listen: " + system_message()};
  Listener listener;
  listener.bound.push_back({descriptor, AF_UNIX, 0});
  listener.address = "unix:" + path;
  return listener;
}

void remove_socket(const std::string& path) { ::unlink(path.c_str()); }

}  // namespace eadem::server
