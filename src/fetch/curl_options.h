// What every transfer by libcurl has in common. Only fetch's own sources include this.
#pragma once

#include <curl/curl.h>

#include <string>
#include <string_view>

namespace eadem::fetch {

// Whether libcurl is ready for use; the first call makes it so.
bool curl_ready();
// http and https alone, the user agent, the certificates that SSL_CERT_FILE and SSL_CERT_DIR name.
void set_common_options(CURL* curl, const std::string& url, curl_slist* headers);
// What went wrong, and what to do where there is something; detail: libcurl's own words, or empty.
std::string curl_fault(CURLcode code, std::string_view detail);

std::string lower(std::string_view text);
// Without blanks and line ends on both sides.
std::string trimmed(std::string_view text);

}  // namespace eadem::fetch
