// Which handler a request goes to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/http.h"

namespace eadem::server {

class Router {
 public:
  explicit Router(std::vector<Route> routes);

  struct Match {
    const Route* route = nullptr;
    std::string tail;                  // what stood for {name}
    std::vector<std::string> methods;  // that the path has; empty: no such path
  };
  Match find(std::string_view method, std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace eadem::server
