// What a connection decides without input or output: keys and origins.
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <utility>

#include "server/http/connection.h"

namespace eadem::server {

// The digests are compared, whole and all of them: the time taken tells nothing of a key.
bool Connection::authorised() const {
  if (core_->key_digests.empty()) return true;
  const auto& headers = reader_->request().headers;
  const auto found = headers.find("authorization");
  if (found == headers.end()) return false;
  constexpr std::string_view kScheme = "bearer ";
  std::string_view value = found->second;
  const bool bearer = value.size() > kScheme.size() &&
                      std::equal(kScheme.begin(), kScheme.end(), value.begin(),
                                 [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
  if (!bearer) return false;
  value.remove_prefix(kScheme.size());
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(value.data()), value.size(), digest.data());
  int equal = 0;
  for (const std::string& key : core_->key_digests) {
    equal |= CRYPTO_memcmp(key.data(), digest.data(), digest.size()) == 0 ? 1 : 0;
  }
  return equal == 1;
}

bool Connection::cors_allows() const {
  const auto& origins = core_->options.cors.origins;
  return !origin_.empty() && (std::find(origins.begin(), origins.end(), "*") != origins.end() ||
                              std::find(origins.begin(), origins.end(), origin_) != origins.end());
}

void Connection::add_standard_headers(Headers& headers) const {
  headers.emplace_back("X-Request-Id", record_.request_id);
  if (!traceparent_.empty()) headers.emplace_back("traceparent", traceparent_);
  if (!cors_allows()) return;
  const CorsOptions& cors = core_->options.cors;
  const bool any = std::find(cors.origins.begin(), cors.origins.end(), "*") != cors.origins.end();
  if (any && !cors.credentials) {
    headers.emplace_back("Access-Control-Allow-Origin", "*");
    return;
  }
  headers.emplace_back("Access-Control-Allow-Origin", origin_);
  headers.emplace_back("Vary", "Origin");
  if (cors.credentials) headers.emplace_back("Access-Control-Allow-Credentials", "true");
}

}  // namespace eadem::server
