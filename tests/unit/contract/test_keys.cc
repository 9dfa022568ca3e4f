// Ed25519: the vectors of RFC 8032, files of keys, and the `openssl` program as the other side.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "contract/base64.h"
#include "contract/keys.h"
#include "support/model_files.h"

namespace eadem::contract {
namespace {

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

std::string pem_of(const std::string& label, const std::string& der) {
  return "-----BEGIN " + label + "-----\n" + to_base64(der) + "\n-----END " + label + "-----\n";
}

// RFC 8410, section 7: what stands before the 32 bytes.
std::string private_pem(std::string_view seed) {
  return pem_of("PRIVATE KEY", from_hex("302e020100300506032b657004220420") + from_hex(seed));
}
std::string public_pem(std::string_view key) {
  return pem_of("PUBLIC KEY", from_hex("302a300506032b6570032100") + from_hex(key));
}

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

struct Vector {
  const char *seed, *key, *message, *signature;
};

// RFC 8032, section 7.1: TEST 1, 2 and 3.
constexpr Vector kVectors[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24"
     "655141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aee"
     "b00d291612bb0c00"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28d"
     "c027beceea1ec40a"}};

TEST(Keys, SignAsRfc8032Says) {
  for (const Vector& vector : kVectors) {
    const auto key = SigningKey::parse(private_pem(vector.seed), "seed");
    ASSERT_TRUE(key.ok()) << key.error().message;
    const std::string message = from_hex(vector.message), signature = from_hex(vector.signature);
    EXPECT_EQ(key.value().sign(message), signature);
    const auto known = VerifyingKey::parse(public_pem(vector.key), "key");
    ASSERT_TRUE(known.ok()) << known.error().message;
    EXPECT_EQ(known.value().pem(), public_pem(vector.key));
    EXPECT_EQ(known.value().key_id(), key.value().key_id());
    EXPECT_TRUE(known.value().verify(message, signature));
    EXPECT_FALSE(known.value().verify(message + " ", signature));
    EXPECT_FALSE(known.value().verify(message, signature.substr(1)));
    EXPECT_FALSE(known.value().verify(message, ""));
    for (size_t bit = 0; bit < 8 * signature.size(); ++bit) {
      std::string other = signature;
      other[bit / 8] = static_cast<char>(other[bit / 8] ^ 1 << bit % 8);
      EXPECT_FALSE(known.value().verify(message, other)) << bit;
    }
  }
}

TEST(Keys, FilesKeepThemAndAreNeverOverwritten) {
  const test::TempDirectory directory;
  const std::filesystem::path& folder = directory.path();
  const std::string path = folder / "signer.key", public_path = folder / "signer.key.pub";
  const SigningKey key = SigningKey::generate();
  EXPECT_NE(key.key_id(), SigningKey::generate().key_id());
  ASSERT_TRUE(key.save(path).ok());
  ASSERT_TRUE(key.verifying_key().save(public_path).ok());
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  const std::string before = read(path);
  const auto again = key.save(path);
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().message.find("never overwritten"), std::string::npos);
  EXPECT_FALSE(SigningKey::generate().verifying_key().save(public_path).ok());
  EXPECT_EQ(read(path), before);

  const auto loaded = SigningKey::load(path);
  const auto known = VerifyingKey::load(public_path);
  ASSERT_TRUE(loaded.ok() && known.ok());
  EXPECT_EQ(loaded.value().key_id(), key.key_id());
  EXPECT_TRUE(known.value().verify("text", loaded.value().sign("text")));
}

std::string fault_of_signing(const std::string& pem) {
  const auto key = SigningKey::parse(pem, "file");
  return key.ok() ? "none" : key.error().message;
}

std::string fault_of_verifying(const std::string& pem) {
  const auto key = VerifyingKey::parse(pem, "file");
  return key.ok() ? "none" : key.error().message;
}

TEST(Keys, EveryFaultOfAFileHasItsOwnWords) {
  EXPECT_NE(SigningKey::load("/nowhere/key").error().message.find("cannot be opened"), std::string::npos);
  EXPECT_NE(SigningKey::load("/").error().message.find("/: cannot be"), std::string::npos);
  EXPECT_NE(fault_of_signing("").find("is no private key in PEM"), std::string::npos);
  EXPECT_NE(fault_of_signing(public_pem(kVectors[0].key)).find("is a public key"), std::string::npos);
  EXPECT_NE(fault_of_verifying("").find("is no public key in PEM"), std::string::npos);
  EXPECT_NE(fault_of_verifying(private_pem(kVectors[0].seed)).find("is a private key"), std::string::npos);
  EXPECT_NE(fault_of_verifying(pem_of("PUBLIC KEY", "nonsense")).find("is no public key in PEM"), std::string::npos);
}

int run(const std::string& command) { return std::system(command.c_str()); }  // NOLINT(cert-env33-c): a test

TEST(Keys, TheOpensslProgramReadsThemAndTheyReadItsOwn) {
  ASSERT_EQ(run("openssl version > /dev/null 2>&1"), 0) << "install openssl (./dev setup does)";
  const test::TempDirectory directory;
  const std::filesystem::path& folder = directory.path();
  const std::string in = "cd '" + folder.string() + "' && ";
  // Ours, checked there.
  const SigningKey key = SigningKey::generate();
  ASSERT_TRUE(key.save(folder / "our.key").ok());
  ASSERT_TRUE(key.verifying_key().save(folder / "our.pub").ok());
  test::write_file(folder / "text", "The message.\n");
  test::write_file(folder / "sig", key.sign("The message.\n"));
  const std::string verify = "openssl pkeyutl -verify -rawin -pubin -inkey our.pub -sigfile sig -in ";
  EXPECT_EQ(run(in + verify + "text > /dev/null 2>&1"), 0);
  test::write_file(folder / "other", "the message.\n");
  EXPECT_NE(run(in + verify + "other > /dev/null 2>&1"), 0);
  EXPECT_EQ(run(in + "openssl pkey -in our.key -pubout | cmp - our.pub"), 0);
  ASSERT_EQ(run(in + "openssl pkey -pubin -in our.pub -outform DER | openssl dgst -sha256 -r | cut -c1-64 > id"), 0);
  EXPECT_EQ(read(folder / "id"), key.key_id() + "\n");
  // Its own, checked here.
  ASSERT_EQ(run(in + "openssl genpkey -algorithm ed25519 -out its.key && openssl pkey -in its.key -pubout -out its.pub "
                     "&& openssl pkeyutl -sign -rawin -inkey its.key -in text -out its.sig"),
            0);
  const auto known = VerifyingKey::load(folder / "its.pub");
  const auto signing = SigningKey::load(folder / "its.key");
  ASSERT_TRUE(known.ok() && signing.ok());
  EXPECT_TRUE(known.value().verify("The message.\n", read(folder / "its.sig")));
  EXPECT_EQ(signing.value().sign("The message.\n"), read(folder / "its.sig"));
  // Keys that cannot be used.
  ASSERT_EQ(
      run(in + "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ec.key 2> /dev/null && openssl "
               "pkey -in ec.key -pubout -out ec.pub && openssl pkey -in its.key -aes256 -passout pass:x -out "
               "locked.key"),
      0);
  EXPECT_NE(SigningKey::load(folder / "ec.key").error().message.find("not of Ed25519"), std::string::npos);
  EXPECT_NE(VerifyingKey::load(folder / "ec.pub").error().message.find("not of Ed25519"), std::string::npos);
  EXPECT_NE(SigningKey::load(folder / "locked.key").error().message.find("passphrase"), std::string::npos);
}

}  // namespace
}  // namespace eadem::contract
