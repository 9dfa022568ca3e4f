// Sockets that listen.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"

namespace eadem::server {

struct Listener {
  struct Bound {
    int descriptor = -1, family = 0, protocol = 0;
  };
  std::vector<Bound> bound;  // whoever takes it closes them
  std::string address;       // "http://127.0.0.1:8000", "unix:/path"
  int port = 0;
};

// All addresses of `host` (empty: every interface); port 0 is any free one. Errors name both.
Result<Listener> listen_tcp(const std::string& host, int port, bool tls);
// A socket that a server which is no more left behind is replaced; a living one's is an error.
Result<Listener> listen_unix(const std::string& path);
void remove_socket(const std::string& path);

}  // namespace eadem::server
