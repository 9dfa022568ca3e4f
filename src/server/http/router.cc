#include "server/http/router.h"

#include <utility>

namespace eadem::server {

Router::Router(std::vector<Route> routes) : routes_(std::move(routes)) {}

Router::Match Router::find(std::string_view method, std::string_view path) const {
  Match match;
  // An exact path goes before one with {name}.
  for (const bool exact : {true, false}) {
    for (const Route& route : routes_) {
      const size_t brace = route.path.find('{');
      const std::string_view head = std::string_view(route.path).substr(0, brace);
      const bool fits = exact ? brace == std::string::npos && route.path == path
                              : brace != std::string::npos && path.size() > head.size() && path.starts_with(head);
      if (!fits) continue;
      match.methods.push_back(route.method);
      if (route.method != method || match.route != nullptr) continue;
      match.route = &route;
      if (!exact) match.tail = path.substr(head.size());
    }
    if (!match.methods.empty()) break;
  }
  return match;
}

}  // namespace eadem::server
