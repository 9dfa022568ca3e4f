#include "fetch/python_index.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fetch/http.h"

namespace eadem::fetch {
namespace {

using nlohmann::json;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

// pip's configuration files, the strongest first.
std::vector<std::string> pip_config_files() {
  std::vector<std::string> files;
  const std::string chosen = environment("PIP_CONFIG_FILE"), prefix = environment("VIRTUAL_ENV"),
                    home = environment("HOME");
  if (chosen == "/dev/null") return files;  // pip's way to say: read none
  if (!chosen.empty()) files.push_back(chosen);
  if (!prefix.empty()) files.push_back(prefix + "/pip.conf");
  std::string configuration = environment("XDG_CONFIG_HOME");
  if (configuration.empty() && !home.empty()) configuration = home + "/.config";
  if (!configuration.empty()) files.push_back(configuration + "/pip/pip.conf");
  if (!home.empty()) files.push_back(home + "/.pip/pip.conf");
  files.emplace_back("/etc/pip.conf");
  files.emplace_back("/etc/xdg/pip/pip.conf");
  return files;
}

std::string html_unescaped(std::string text) {
  const std::pair<std::string_view, std::string_view> entities[] = {{"&lt;", "<"},  {"&gt;", ">"},   {"&quot;", "\""},
                                                                    {"&#39;", "'"}, {"&#x27;", "'"}, {"&amp;", "&"}};
  for (const auto& [entity, character] : entities) {
    for (size_t at = 0; (at = text.find(entity, at)) != std::string::npos; at += character.size()) {
      text.replace(at, entity.size(), character);
    }
  }
  return text;
}

// The value of `href` in the inside of an anchor tag.
std::string href_of(std::string_view tag) {
  const size_t at = tag.find("href");
  if (at == std::string_view::npos) return {};
  const size_t open = tag.find_first_of("\"'", at);
  if (open == std::string_view::npos) return {};
  const size_t close = tag.find(tag[open], open + 1);
  if (close == std::string_view::npos) return {};
  return html_unescaped(std::string(tag.substr(open + 1, close - open - 1)));
}

Result<IndexFile> resolved(const std::string& base, const std::string& link, std::string sha256) {
  const size_t fragment = link.find("#sha256=");
  if (sha256.empty() && fragment != std::string::npos) sha256 = link.substr(fragment + 8, 64);
  EADEM_ASSIGN_OR_RETURN(std::string url, join_url(base, link));
  return IndexFile{std::move(url), std::move(sha256)};
}

Result<IndexFile> find_in_html(const std::string& page, const std::string& base, const std::string& filename) {
  for (size_t at = 0; (at = page.find("<a", at)) != std::string::npos;) {
    const size_t end = page.find('>', at);
    const size_t close = end == std::string::npos ? end : page.find('<', end);
    if (close == std::string::npos) break;
    if (trimmed(std::string_view(page).substr(end + 1, close - end - 1)) == filename) {
      return resolved(base, href_of(std::string_view(page).substr(at, end - at)), {});
    }
    at = close;
  }
  return Error{public_url(base) + ": does not list " + filename + "; is it a complete Python index? (PIP_INDEX_URL)"};
}

Result<IndexFile> find_in_json(const std::string& page, const std::string& base, const std::string& filename) {
  const json document = json::parse(page, nullptr, false);
  if (!document.is_object() || !document.contains("files") || !document["files"].is_array()) {
    return Error{public_url(base) + ": not the JSON of a Python index; check PIP_INDEX_URL"};
  }
  for (const json& file : document["files"]) {
    if (!file.is_object() || !file.contains("filename") || file["filename"] != filename) continue;
    if (!file.contains("url") || !file["url"].is_string()) break;
    std::string sha256;
    if (file.contains("hashes") && file["hashes"].is_object()) {
      const json& hashes = file["hashes"];
      if (hashes.contains("sha256") && hashes["sha256"].is_string()) sha256 = hashes["sha256"].get<std::string>();
    }
    return resolved(base, file["url"].get<std::string>(), std::move(sha256));
  }
  return Error{public_url(base) + ": does not list " + filename + "; is it a complete Python index? (PIP_INDEX_URL)"};
}

}  // namespace

std::string index_url_of_config(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string section, found;
  for (std::string line; std::getline(lines, line);) {
    const std::string clean = trimmed(line);
    if (clean.empty() || clean[0] == '#' || clean[0] == ';') continue;
    if (clean[0] == '[') {
      section = clean;
      continue;
    }
    const size_t equals = clean.find_first_of("=:");
    if (section != "[global]" || equals == std::string::npos) continue;
    const std::string key = trimmed(std::string_view(clean).substr(0, equals));
    if (key == "index-url" || key == "index_url") found = trimmed(std::string_view(clean).substr(equals + 1));
  }
  return found;
}

std::string python_index_url() {
  std::string url = trimmed(environment("PIP_INDEX_URL"));
  for (const std::string& path : pip_config_files()) {
    if (!url.empty()) break;
    std::ifstream in(path);
    if (in) url = index_url_of_config({std::string(std::istreambuf_iterator<char>(in), {})});
  }
  if (url.empty()) url = "https://pypi.org/simple";
  while (url.ends_with('/')) url.pop_back();
  return url;
}

Result<IndexFile> find_on_page(const std::string& page, const std::string& content_type, const std::string& base,
                               const std::string& filename) {
  if (content_type.find("json") != std::string::npos) return find_in_json(page, base, filename);
  return find_in_html(page, base, filename);
}

Result<IndexFile> find_on_index(const std::string& project, const std::string& filename, const PullOptions& options) {
  HttpRequest request;
  request.url = python_index_url() + "/" + project + "/";
  request.headers = {"Accept: application/vnd.pypi.simple.v1+json, text/html;q=0.5"};
  request.stall_seconds = options.stall_seconds;
  EADEM_ASSIGN_OR_RETURN(const TextReply page, http_get_text(request, options.retries, options.retry_seconds));
  return find_on_page(page.text, page.content_type, page.url, filename);
}

}  // namespace eadem::fetch
