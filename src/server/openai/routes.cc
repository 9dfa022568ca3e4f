#include "server/openai/routes.h"

#include <memory>
#include <utility>

#include "server/openai/endpoints.h"

namespace eadem::server {

namespace {

// What the handlers share; goes with the last of them, before the service does.
class Handle {
 public:
  explicit Handle(const OpenaiOptions& options) : context_(std::make_shared<Context>(options)) {}
  ~Handle() { context_->close(); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  const SharedContext& context() const { return context_; }

 private:
  SharedContext context_;
};

}  // namespace

std::vector<Route> openai_routes(const OpenaiOptions& options) {
  using Function = void (*)(const SharedContext&, const HttpRequest&, const SharedReply&);
  struct Place {
    const char *method, *path;
    Function function;
    bool open;
  };
  constexpr Place kPlaces[] = {
      {"GET", "/v1/models", list_models, false},      {"GET", "/v1/models/{name}", show_model, false},
      {"POST", "/v1/completions", complete, false},   {"POST", "/v1/chat/completions", chat, false},
      {"POST", "/v1/embeddings", embed, false},       {"POST", "/tokenize", tokenize, false},
      {"POST", "/detokenize", detokenize, false},     {"GET", "/tokenizer_info", tokenizer_info, false},
      {"GET", "/v1/fingerprint", fingerprint, false}, {"POST", "/v1/verify", verify, false},
      {"GET", "/openapi.json", openapi, true},
  };
  const auto handle = std::make_shared<Handle>(options);
  std::vector<Route> routes;
  for (const Place& place : kPlaces) {
    routes.push_back({place.method, place.path,
                      [handle, function = place.function](const HttpRequest& request, std::shared_ptr<Reply> reply) {
                        function(handle->context(), request, reply);
                      },
                      place.open});
  }
  return routes;
}

}  // namespace eadem::server
