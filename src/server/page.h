// The live page at `/`: files built from web/, kept in the program itself. Open to everyone (it holds no secret and
// asks for the API key itself); it loads nothing but these files and speaks only to the server it came from.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http.h"

namespace eadem::server {

struct Asset {
  std::string path;               // "/", "/page.js", ...
  std::string_view content_type;  // with its charset
  std::string etag;               // strong, with its quotes
  std::string_view bytes;
};

// All files of the page, in the order of their paths. Static storage.
std::span<const Asset> assets();

// The file served at `path` (exactly, without a query), or null.
const Asset* find_asset(std::string_view path);

// One GET route for each file: 200, or 304 where If-None-Match names what we have. No API key is asked.
std::vector<Route> page_routes();

}  // namespace eadem::server
