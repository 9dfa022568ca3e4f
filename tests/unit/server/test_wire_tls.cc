// TLS and Unix sockets: a certificate made here, and OpenSSL's own client.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>

#include "raw_client.h"

namespace eadem::test {
namespace {

// A certificate that signs itself, and its key.
std::pair<std::string, std::string> make_certificate(const std::filesystem::path& folder) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* const name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_sign(certificate, key, EVP_sha256());
  const std::string certificate_path = folder / "cert.pem", key_path = folder / "key.pem";
  FILE* file = std::fopen(certificate_path.c_str(), "w");
  PEM_write_X509(file, certificate);
  std::fclose(file);
  file = std::fopen(key_path.c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return {certificate_path, key_path};
}

class TlsFixture : public WireFixture {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("eadem-wire-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    WireFixture::TearDown();
    std::filesystem::remove_all(folder_);
  }

  std::filesystem::path folder_;
};

int connect_to(int port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return descriptor;
}

TEST_F(TlsFixture, SpeaksTlsAndNothingElse) {
  server::WireOptions options;
  std::tie(options.tls_certificate, options.tls_key) = make_certificate(folder_);
  open(options);
  EXPECT_TRUE(wire_->address().starts_with("https://"));
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL* const ssl = SSL_new(context);
  const int descriptor = connect_to(port());
  SSL_set_fd(ssl, descriptor);
  ASSERT_EQ(SSL_connect(ssl), 1);
  const std::string body(300000, 'b');
  const std::string request =
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  ASSERT_EQ(SSL_write(ssl, request.data(), static_cast<int>(request.size())), static_cast<int>(request.size()));
  std::string reply;
  char bytes[16384];
  while (body_of(reply).size() < body.size()) {
    const int got = SSL_read(ssl, bytes, sizeof bytes);
    if (got <= 0) break;
    reply.append(bytes, static_cast<size_t>(got));
  }
  EXPECT_EQ(body_of(reply), body);
  // A client that goes is noticed through TLS as well.
  const std::string stream = "POST /stream HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n";
  SSL_write(ssl, stream.data(), static_cast<int>(stream.size()));
  held();
  ::close(descriptor);
  EXPECT_TRUE(wait_until([&] { return gone_ == 1; }));
  SSL_free(ssl);
  SSL_CTX_free(context);

  RawClient plain(port());
  plain.send("GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_FALSE(has(plain.read_to_end(), "200"));
}

TEST_F(TlsFixture, AKeyOfAnotherCertificateIsRefused) {
  server::WireOptions options;
  options.port = 0;
  std::filesystem::create_directories(folder_ / "other");
  options.tls_certificate = make_certificate(folder_).first;
  options.tls_key = make_certificate(folder_ / "other").second;
  EXPECT_FALSE(server::Wire::open(options).ok());
}

TEST_F(TlsFixture, UnixSocket) {
  server::WireOptions options;
  options.uds = folder_ / "socket";
  open(options);
  EXPECT_FALSE(server::Wire::open(options).ok());  // it is in use
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, options.uds.c_str(), options.uds.size());
  ASSERT_EQ(::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const std::string request = "GET /hello HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
  ASSERT_EQ(::write(descriptor, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string reply;
  char bytes[4096];
  for (ssize_t got = 0; (got = ::read(descriptor, bytes, sizeof bytes)) > 0;)
    reply.append(bytes, static_cast<size_t>(got));
  ::close(descriptor);
  EXPECT_EQ(body_of(reply), "hello \n");
  wire_.reset();
  EXPECT_FALSE(std::filesystem::exists(options.uds));
}

}  // namespace
}  // namespace eadem::test
