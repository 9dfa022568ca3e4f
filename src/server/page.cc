#include "server/page.h"

#include <string>
#include <utility>

#include "core/check.h"
#include "core/embedded_file.h"

namespace eadem::server {

std::span<const EmbeddedFile> page_files();  // web/dist

namespace {

// The page may run its own script and style and call its own server: nothing inline, nothing from elsewhere, no frame
// around it. `data:` is for the lines of the charts' legend and the icon.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// If-None-Match is `*` or a list of tags, each perhaps weak (W/"..."); weak comparison is right for GET (RFC 9110).
bool names_tag(std::string_view header, std::string_view etag) {
  return header == "*" || header.find(etag) != std::string_view::npos;
}

void serve(const Asset& asset, const HttpRequest& request, Reply& reply) {
  Headers headers = {{"ETag", asset.etag},
                     {"Cache-Control", "no-cache"},  // kept, but asked for each time: a new server brings a new page
                     {"Content-Security-Policy", std::string(kPolicy)},
                     {"X-Content-Type-Options", "nosniff"},
                     {"Referrer-Policy", "no-referrer"}};
  const auto known = request.headers.find("if-none-match");
  if (known != request.headers.end() && names_tag(known->second, asset.etag)) {
    reply.send(304, asset.content_type, "", std::move(headers));
    return;
  }
  reply.send(200, asset.content_type, std::string(asset.bytes), std::move(headers));
}

std::string_view type_of(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {{".html", "text/html; charset=utf-8"},
                                                                      {".js", "text/javascript; charset=utf-8"},
                                                                      {".css", "text/css; charset=utf-8"},
                                                                      {".svg", "image/svg+xml"},
                                                                      {".txt", "text/plain; charset=utf-8"}};
  for (const auto& [suffix, type] : kTypes) {
    if (name.ends_with(suffix)) return type;
  }
  return {};
}

std::vector<Asset> make_assets() {
  std::vector<Asset> made;
  for (const EmbeddedFile& file : page_files()) {
    const std::string_view type = type_of(file.name);
    EADEM_CHECK(!type.empty());  // a new kind of file in web/dist: add it above
    made.push_back({.path = file.name == "index.html" ? "/" : "/" + std::string(file.name),
                    .content_type = type,
                    .etag = "\"" + std::string(file.sha256.substr(0, 32)) + "\"",
                    .bytes = file.bytes});
  }
  return made;
}

}  // namespace

std::span<const Asset> assets() {
  static const std::vector<Asset> made = make_assets();
  return made;
}

const Asset* find_asset(std::string_view path) {
  for (const Asset& asset : assets()) {
    if (asset.path == path) return &asset;
  }
  return nullptr;
}

std::vector<Route> page_routes() {
  std::vector<Route> routes;
  for (const Asset& asset : assets()) {
    routes.push_back({.method = "GET",
                      .path = asset.path,
                      .handler = [&asset](const HttpRequest& request,
                                          const std::shared_ptr<Reply>& reply) { serve(asset, request, *reply); },
                      .open = true});
  }
  return routes;
}

}  // namespace eadem::server
