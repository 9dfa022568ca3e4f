// Base64, DSSE envelopes, and that no bit of one can change unseen.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "contract/base64.h"
#include "contract/dsse.h"

namespace eadem::contract {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kType = "http://example.com/HelloWorld";

TEST(Base64, VectorsOfRfc4648) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"},
                                                         {"\xfb\xff", "+/8="}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  EXPECT_EQ(from_base64("-_8="), "\xfb\xff");
  for (const char* bad :
       {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zm9v\n", "Zm 9", "Zg==Zg==", "Z=g=", "\xc3\xa4=="}) {
    EXPECT_FALSE(from_base64(bad)) << bad;
  }
}

TEST(Dsse, PreAuthenticationEncodingOfTheSpecification) {
  EXPECT_EQ(pre_authentication_encoding(kType, "hello world"),
            "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
  EXPECT_EQ(pre_authentication_encoding("", ""), "DSSEv1 0  0 ");
  EXPECT_EQ(pre_authentication_encoding("a", "\xc3\xa4"), "DSSEv1 1 a 2 \xc3\xa4");  // bytes, not characters
}

std::string fault(const std::string& envelope, const VerifyingKey& key) {
  const auto payload = unseal(envelope, kType, key);
  return payload.ok() ? "none" : payload.error().message.substr(0, payload.error().message.find(':'));
}

TEST(Dsse, EveryFaultHasItsOwnWords) {
  const SigningKey key = SigningKey::generate(), other = SigningKey::generate();
  const std::string sealed = seal(kType, "hello world", key);
  EXPECT_EQ(unseal(sealed, kType, key.verifying_key()).value(), "hello world");
  EXPECT_EQ(sealed.find('\n'), std::string::npos);

  EXPECT_EQ(fault("{", key.verifying_key()), "no DSSE envelope");
  EXPECT_EQ(fault(seal("text/plain", "hello world", key), key.verifying_key()), "another payload type");
  EXPECT_EQ(fault(sealed, other.verifying_key()), "unknown key");
  ordered_json changed = ordered_json::parse(sealed);
  changed["payload"] = to_base64("hello worle");
  EXPECT_EQ(fault(changed.dump(), key.verifying_key()), "bad signature");
  changed = ordered_json::parse(sealed);
  changed["signatures"][0]["keyid"] = other.key_id();  // claims to be the other's
  EXPECT_EQ(fault(changed.dump(), other.verifying_key()), "bad signature");
  EXPECT_EQ(fault(changed.dump(), key.verifying_key()), "unknown key");
}

TEST(Dsse, ReadsSeveralSignaturesAndThoseWithoutAName) {
  const SigningKey key = SigningKey::generate(), other = SigningKey::generate();
  ordered_json both = ordered_json::parse(seal(kType, "text", other));
  both["signatures"].push_back(ordered_json::parse(seal(kType, "text", key))["signatures"][0]);
  both["signatures"][1]["cert"] = "a field of others";
  both["comment"] = {{"of", {"others"}}};
  EXPECT_EQ(fault(both.dump(), key.verifying_key()), "none");
  EXPECT_EQ(fault(both.dump(), other.verifying_key()), "none");
  EXPECT_EQ(fault(both.dump(), SigningKey::generate().verifying_key()), "unknown key");
  both["signatures"][1]["keyid"] = "";
  EXPECT_EQ(fault(both.dump(), key.verifying_key()), "none");
  both["signatures"].erase(1);
  both["signatures"][0]["keyid"] = "";
  EXPECT_EQ(fault(both.dump(), key.verifying_key()), "bad signature");
}

TEST(Dsse, RefusesWhatIsNoEnvelope) {
  const SigningKey key = SigningKey::generate();
  const ordered_json good = ordered_json::parse(seal(kType, "text", key));
  std::vector<std::string> bad = {
      "", "null", "[]", "\"text\"", "{}", "{\"payload\":1e999}", std::string(100000, '['), "{\"a\":1,\"a\":1}"};
  for (const char* field : {"payload", "payloadType", "signatures"}) {
    for (const ordered_json& value : {ordered_json(), ordered_json(1), ordered_json::array(), ordered_json::object()}) {
      ordered_json changed = good;
      changed[field] = value;
      bad.push_back(changed.dump());
    }
    ordered_json without = good;
    without.erase(field);
    bad.push_back(without.dump());
  }
  for (const ordered_json& entry :
       {ordered_json(1), ordered_json::object(), ordered_json{{"sig", 1}}, ordered_json{{"sig", ""}},
        ordered_json{{"sig", "?"}, {"keyid", ""}}, ordered_json{{"sig", ""}, {"keyid", 1}}}) {
    ordered_json changed = good;
    changed["signatures"] = {entry};
    bad.push_back(changed.dump());
  }
  ordered_json many = good;
  for (int i = 0; i < 64; ++i) many["signatures"].push_back(many["signatures"][0]);
  bad.push_back(many.dump());
  for (const std::string& text : bad)
    EXPECT_EQ(fault(text, key.verifying_key()), "no DSSE envelope") << text.substr(0, 200);
}

// Whatever single bit of the text changes, the payload is refused; each refusal is one of those above.
TEST(Dsse, NoBitChangesUnseen) {
  const SigningKey key = SigningKey::generate();
  const std::string sealed = seal(kType, "hello world", key);
  std::set<std::string> faults;
  for (size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    std::string changed = sealed;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    const std::string found = fault(changed, key.verifying_key());
    EXPECT_NE(found, "none") << "bit " << bit << ": " << changed;
    faults.insert(found);
  }
  EXPECT_EQ(faults,
            (std::set<std::string>{"no DSSE envelope", "another payload type", "unknown key", "bad signature"}));
}

}  // namespace
}  // namespace eadem::contract
