#include "fetch/digest.h"

#include <openssl/evp.h>

#include <array>

#include "core/check.h"
#include "core/mapped_file.h"

namespace eadem::fetch {

struct Digest::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { EVP_MD_CTX_free(evp); }
};

Digest::Digest(Kind kind, uint64_t size) : context_(std::make_unique<Context>()) {
  const EVP_MD* algorithm = kind == Kind::kSha256 ? EVP_sha256() : EVP_sha1();
  EADEM_CHECK(context_->evp != nullptr && EVP_DigestInit_ex(context_->evp, algorithm, nullptr) == 1);
  if (kind == Kind::kGitBlob) {
    const std::string header = "blob " + std::to_string(size);
    update(std::as_bytes(std::span(header.c_str(), header.size() + 1)));
  }
}

Digest::~Digest() = default;

void Digest::update(std::span<const std::byte> bytes) {
  EADEM_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned int size = 0;
  EADEM_CHECK(EVP_DigestFinal_ex(context_->evp, raw.data(), &size) == 1);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += kDigits[raw[i] >> 4];
    text += kDigits[raw[i] & 15];
  }
  return text;
}

Result<std::string> file_digest(const std::filesystem::path& path, Digest::Kind kind,
                                const std::function<bool(uint64_t)>& tick) {
  std::error_code failure;
  if (std::filesystem::file_size(path, failure) == 0 && !failure) return Digest(kind, 0).hex();
  EADEM_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  Digest digest(kind, file.size());
  constexpr size_t kStep = 1 << 22;
  for (size_t offset = 0; offset < file.size(); offset += kStep) {
    const auto piece = file.bytes().subspan(offset, std::min(kStep, file.size() - offset));
    digest.update(piece);
    if (tick && !tick(piece.size())) return Error{"stopped while checking " + path.string()};
  }
  return digest.hex();
}

}  // namespace eadem::fetch
