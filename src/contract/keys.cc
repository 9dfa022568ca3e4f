#include "contract/keys.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "contract/base64.h"

namespace eadem::contract {
namespace {

constexpr size_t kLargestFile = 64 << 10;  // a PEM text of a key has some hundred bytes
constexpr size_t kSignatureBytes = 64;

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

std::shared_ptr<EVP_PKEY> own(EVP_PKEY* key) { return {key, EVP_PKEY_free}; }

const unsigned char* bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

std::string contents(BIO* bio) {
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{path + ": cannot be opened: " + std::strerror(errno)};
  std::string text(kLargestFile + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.fail() && !file.eof())) return Error{path + ": cannot be read"};
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kLargestFile) return Error{path + ": is too large for a key"};
  return text;
}

// The file must be new: a key that is overwritten is lost for ever.
Result<void> write_new(const std::string& path, const std::string& text, unsigned mode) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (file < 0 && errno == EEXIST) return Error{path + ": exists; keys are never overwritten: name another file"};
  if (file < 0) return Error{path + ": cannot be made: " + std::strerror(errno)};
  size_t done = 0;
  while (done < text.size()) {
    const auto written = ::write(file, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<size_t>(written);
  }
  const bool whole = done == text.size() && ::fsync(file) == 0;
  if (::close(file) == 0 && whole) return {};
  ::unlink(path.c_str());
  return Error{path + ": cannot be written: is the disk full?"};
}

// Without it OpenSSL asks for a passphrase on the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

bool has(std::string_view pem, std::string_view label) { return pem.find(label) != std::string_view::npos; }

Error no_ed25519(const std::string& name) {
  return {name + ": the key is not of Ed25519; make one with `eadem keygen --out " + name + "`"};
}

std::string digest_of_public_key(EVP_PKEY* key) {
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  EADEM_CHECK(size > 0);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  const int done = EVP_Digest(der, static_cast<size_t>(size), digest, &length, EVP_sha256(), nullptr);
  OPENSSL_free(der);
  EADEM_CHECK(done == 1);
  return to_hex({reinterpret_cast<const char*>(digest), length});
}

std::shared_ptr<EVP_PKEY> public_half(EVP_PKEY* key) {
  unsigned char raw[32];
  size_t size = sizeof raw;
  EADEM_CHECK(EVP_PKEY_get_raw_public_key(key, raw, &size) == 1 && size == sizeof raw);
  auto half = own(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw, size));
  EADEM_CHECK(half != nullptr);
  return half;
}

}  // namespace

VerifyingKey::VerifyingKey(std::shared_ptr<EVP_PKEY> key)
    : key_(std::move(key)), key_id_(digest_of_public_key(key_.get())) {}

Result<VerifyingKey> VerifyingKey::parse(std::string_view pem, const std::string& name) {
  if (has(pem, "PRIVATE KEY-----")) return Error{name + ": is a private key; give the public one (" + name + ".pub)"};
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  EADEM_CHECK(bio != nullptr);
  auto key = own(PEM_read_bio_PUBKEY(bio.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr)
    return Error{name + ": is no public key in PEM; `eadem keygen` writes one beside the private key"};
  if (EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519) return no_ed25519(name);
  return VerifyingKey(std::move(key));
}

Result<VerifyingKey> VerifyingKey::load(const std::string& path) {
  EADEM_ASSIGN_OR_RETURN(const std::string pem, read_file(path));
  return parse(pem, path);
}

std::string VerifyingKey::pem() const {
  const Bio bio(BIO_new(BIO_s_mem()));
  EADEM_CHECK(bio != nullptr && PEM_write_bio_PUBKEY(bio.get(), key_.get()) == 1);
  return contents(bio.get());
}

bool VerifyingKey::verify(std::string_view message, std::string_view signature) const {
  if (signature.size() != kSignatureBytes) return false;
  const Context context(EVP_MD_CTX_new());
  EADEM_CHECK(context != nullptr && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1);
  const bool good =
      EVP_DigestVerify(context.get(), bytes(signature), signature.size(), bytes(message), message.size()) == 1;
  ERR_clear_error();
  return good;
}

Result<void> VerifyingKey::save(const std::string& path) const { return write_new(path, pem(), 0644); }

SigningKey::SigningKey(std::shared_ptr<EVP_PKEY> key) : key_(std::move(key)), public_(public_half(key_.get())) {}

SigningKey SigningKey::generate() {
  auto key = own(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  EADEM_CHECK(key != nullptr);
  return SigningKey(std::move(key));
}

Result<SigningKey> SigningKey::parse(std::string_view pem, const std::string& name) {
  if (has(pem, "BEGIN PUBLIC KEY-----")) return Error{name + ": is a public key; signing needs the private one"};
  if (has(pem, "ENCRYPTED")) {
    return Error{name + ": is locked with a passphrase; unlock a copy with `openssl pkey -in " + name + "`"};
  }
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  EADEM_CHECK(bio != nullptr);
  auto key = own(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr)
    return Error{name + ": is no private key in PEM; make one with `eadem keygen --out " + name + "`"};
  if (EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519) return no_ed25519(name);
  return SigningKey(std::move(key));
}

Result<SigningKey> SigningKey::load(const std::string& path) {
  EADEM_ASSIGN_OR_RETURN(std::string pem, read_file(path));
  auto key = parse(pem, path);
  OPENSSL_cleanse(pem.data(), pem.size());
  return key;
}

std::string SigningKey::sign(std::string_view message) const {
  const Context context(EVP_MD_CTX_new());
  std::string signature(kSignatureBytes, '\0');
  size_t size = signature.size();
  EADEM_CHECK(context != nullptr && EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
              EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes(message),
                             message.size()) == 1 &&
              size == kSignatureBytes);
  return signature;
}

Result<void> SigningKey::save(const std::string& path) const {
  const Bio bio(BIO_new(BIO_s_secmem()));
  EADEM_CHECK(bio != nullptr &&
              PEM_write_bio_PKCS8PrivateKey(bio.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  std::string pem = contents(bio.get());
  auto written = write_new(path, pem, 0600);
  OPENSSL_cleanse(pem.data(), pem.size());
  return written;
}

}  // namespace eadem::contract
