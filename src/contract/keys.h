// Ed25519 keys (RFC 8032, through OpenSSL) that sign receipts, results of the acceptance matrix and approvals.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace eadem::contract {

// Who signed: checks signatures, holds no secret.
class VerifyingKey {
 public:
  // A file with the PEM text of a public key (SubjectPublicKeyInfo, RFC 8410), as `openssl pkey -pubout` writes it.
  // Errors: no such file, no PEM, a private key, another algorithm.
  static Result<VerifyingKey> load(const std::string& path);
  // The same from the text itself; `name` stands in errors.
  static Result<VerifyingKey> parse(std::string_view pem, const std::string& name);

  // SHA-256 over the DER of the SubjectPublicKeyInfo, 64 hexadecimal digits: what
  // `openssl pkey -pubin -in KEY.pub -outform DER | sha256sum` prints.
  const std::string& key_id() const { return key_id_; }
  std::string pem() const;
  // signature: 64 bytes. False for any other.
  bool verify(std::string_view message, std::string_view signature) const;
  // Writes pem() to a new file. Errors: the file exists, or cannot be written.
  Result<void> save(const std::string& path) const;

 private:
  friend class SigningKey;
  explicit VerifyingKey(std::shared_ptr<evp_pkey_st> key);

  std::shared_ptr<evp_pkey_st> key_;
  std::string key_id_;
};

// Signs. Copies share one key, which OpenSSL wipes with the last of them. Safe from any thread.
class SigningKey {
 public:
  // From the system's randomness.
  static SigningKey generate();
  // A file with the PEM text of an unencrypted PKCS#8 private key. Errors: no such file, no PEM, a passphrase, a public
  // key, another algorithm.
  static Result<SigningKey> load(const std::string& path);
  static Result<SigningKey> parse(std::string_view pem, const std::string& name);

  const VerifyingKey& verifying_key() const { return public_; }
  const std::string& key_id() const { return public_.key_id(); }
  // 64 bytes; the same for the same message.
  std::string sign(std::string_view message) const;
  // Writes a new file that its owner alone can read (mode 0600). Errors: the file exists, or cannot be written.
  Result<void> save(const std::string& path) const;

 private:
  explicit SigningKey(std::shared_ptr<evp_pkey_st> key);

  std::shared_ptr<evp_pkey_st> key_;
  VerifyingKey public_;
};

}  // namespace eadem::contract
