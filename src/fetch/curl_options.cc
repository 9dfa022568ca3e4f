#include "fetch/curl_options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace eadem::fetch {

bool curl_ready() {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  return initialised == CURLE_OK;
}

void set_common_options(CURL* curl, const std::string& url, curl_slist* headers) {
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "eadem");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  if (const char* file = std::getenv("SSL_CERT_FILE"); file && *file) curl_easy_setopt(curl, CURLOPT_CAINFO, file);
  if (const char* folder = std::getenv("SSL_CERT_DIR"); folder && *folder)
    curl_easy_setopt(curl, CURLOPT_CAPATH, folder);
}

std::string curl_fault(CURLcode code, std::string_view detail) {
  const std::string what = detail.empty() ? curl_easy_strerror(code) : std::string(detail);
  if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
    return what + "; set SSL_CERT_FILE to the certificates to trust";
  }
  if (code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_PROXY) {
    return what + "; check the network, or set https_proxy";
  }
  return what;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

}  // namespace eadem::fetch
