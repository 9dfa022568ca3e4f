#include "audit/redact.h"

#include <gtest/gtest.h>

#include "audit/corpus.h"
#include "audit/log_import.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

Redactor plain() { return Redactor::create({}).value(); }

struct Planted {
  const char* text;  // holds the secret between the marks < and >
  const char* kind;
};

// Every secret is planted into a text that must stay as it is around it.
const Planted kPlanted[] = {
    {"Write to <jane.doe+spam@mail.example.co.uk>, please", "email"},
    {"(<j@x.io>)", "email"},
    {"<jürgen@straße.de>.", "email"},
    {"git clone https://<bob:hunter2>@git.internal/repo.git", "url"},
    {"postgres://<admin:p%40ss:w@rd>@db:5432/main", "url"},
    {"Call <+49 170 1234567> now", "phone"},
    {"call <(212) 555-0188>!", "phone"},
    {"Tel. <212-555-0188>", "phone"},
    {"Tel. <030 1234 5678>", "phone"},
    {"my key: <sk-proj-Ab3dEfGh1JkLmN0pQrStUv>", "key"},
    {"AWS <AKIAIOSFODNN7EXAMPLE> here", "key"},
    {"curl -H 'Authorization: Bearer <abcDEF123456ghiJKL>'", "key"},
    {"token <eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl>", "key"},
    {"the hash <9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08>", "key"},
    {"id <3f2504e0-4f89-11d3-9a0c-0305e82c3301>", "key"},
    {"password: <correct-horse>", "key"},
    {"{\"api_key\": \"<zzzz>\"}", "key"},
    {"my password is <swordfish!!x>", "key"},
    {"DB_PASSWORD=<s3cret>", "key"},
    {"card <4111 1111 1111 1111> ok", "digits"},
    {"card <4111111111111111>", "digits"},
    {"ssn <078-05-1120>", "digits"},
    {"account <123456789>", "digits"},
    {"<-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY----->\nrest", "key"},
    {"<-----BEGIN PRIVATE KEY-----\nMIIEow and no end>", "key"},
};

TEST(Redact, EveryPlantedSecretGoesAndTheRestStays) {
  for (const Planted& planted : kPlanted) {
    std::string text = planted.text;
    const size_t begin = text.find('<'), end = text.rfind('>');
    const std::string before = text.substr(0, begin), secret = text.substr(begin + 1, end - begin - 1),
                      after = text.substr(end + 1);
    Redactor redactor = plain();
    const std::string result = redactor.redact(before + secret + after);
    EXPECT_EQ(result.find(secret), std::string::npos) << result;
    EXPECT_TRUE(result.starts_with(before)) << result;
    EXPECT_TRUE(result.ends_with(after)) << result;
    ASSERT_EQ(redactor.counts().size(), 1u) << result;
    EXPECT_EQ(redactor.counts().begin()->first, planted.kind) << planted.text << " -> " << result;
    EXPECT_EQ(redactor.counts().begin()->second, 1u) << result;
  }
}

TEST(Redact, WhatIsNoSecretStays) {
  for (const char* text : {
           "On 2026-11-29 at 12:30 we sold 1,250 tickets for 3.50 each.",
           "Version 1.2.3, chapter 10.4, pages 100-120",
           "def f(x): return x @ y  # matrix product",
           "a@b, @decorator, me@localhost",
           "https://example.com/path/to/page?id=12#top",
           "The internationalisation of characteristically long words",
           "my-long-file-name-for-the-report-of-this-year.txt",
           "SELECT id FROM t WHERE a = 5 AND b = 12345678",
           "Phone home! The secret garden; a token of love.",
           "0.1 + 0.2 = 0.30000004",
           "日本語のテキスト、数字は１２３",
           "",
       }) {
    Redactor redactor = plain();
    EXPECT_EQ(redactor.redact(text), text);
    EXPECT_TRUE(redactor.counts().empty()) << text;
  }
}

TEST(Redact, TheSameOriginalHasTheSamePlaceholder) {
  Redactor redactor = plain();
  EXPECT_EQ(redactor.redact("a@x.org b@x.org a@x.org"), "user1@example.com user2@example.com user1@example.com");
  EXPECT_EQ(redactor.redact("b@x.org"), "user2@example.com");
  EXPECT_EQ(redactor.counts().at("email"), 4u);
  // Placeholders are left as they are found, so a second pass moves nothing but their numbers.
  Redactor again = plain();
  EXPECT_EQ(again.redact("user1@example.com"), "user1@example.com");
}

TEST(Redact, OwnExpressions) {
  auto redactor = Redactor::create({"PRJ-[0-9]+", "Acme( Corp)?"});
  ASSERT_TRUE(redactor.ok());
  EXPECT_EQ(redactor.value().redact("PRJ-12 of Acme Corp and PRJ-7 of Acme"),
            "[redacted-1] of [redacted-2] and [redacted-3] of [redacted-4]");
  EXPECT_EQ(redactor.value().counts().at("custom"), 4u);
  const auto bad = Redactor::create({"(open"});
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("'(open'"), std::string::npos) << bad.error().message;
  auto empty = Redactor::create({"x*"});  // matches nothing, everywhere
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty.value().redact("axxb"), "a[redacted-1]b");
}

TEST(Redact, AllStringsOfAValue) {
  Redactor redactor = plain();
  const ordered_json value = {{"messages", {{{"role", "user"}, {"content", {{{"text", "I am a@b.org"}}}}}}},
                              {"tools", {{{"c@d.org", 1}}}},
                              {"seed", 123456789012345}};
  const std::string text = redactor.redact_json(value).dump();
  EXPECT_EQ(text.find("a@b.org"), std::string::npos);
  EXPECT_EQ(text.find("c@d.org"), std::string::npos);
  EXPECT_NE(text.find("123456789012345"), std::string::npos) << "numbers of the API stay";
}

TEST(Redact, HostileTextEndsSoon) {
  constexpr size_t kSize = size_t{1} << 20;
  for (const char* piece :
       {"a@", "://", "://a@", "password=", "-----BEGIN ", "1-", "(1", "a.", "+(", "bearer ", "is ", "\xff"}) {
    std::string text;
    while (text.size() < kSize) text += piece;
    Redactor redactor = plain();
    EXPECT_FALSE(redactor.redact(text).empty()) << piece;
  }
}

std::string log_line(const ordered_json& body, const ordered_json& more = {}) {
  ordered_json line = {{"time", "2026-11-29T10:00:00.000Z"},
                       {"level", "info"},
                       {"event", "request"},
                       {"path", "/v1/chat/completions"},
                       {"status", 200},
                       {"completion_tokens", 12},
                       {"seed", 77},
                       {"body", body.is_string() ? body : ordered_json(body.dump())}};
  for (const auto& [name, value] : more.items()) line[name] = value;
  return line.dump() + "\n";
}

ordered_json chat(const std::string& text) {
  return {
      {"model", "m"}, {"stream", true}, {"user", "jane@x.org"}, {"messages", {{{"role", "user"}, {"content", text}}}}};
}

TEST(LogImport, TakesRequestsWithoutTheirSecrets) {
  Redactor redactor = plain();
  const std::string log = log_line(chat("I am jane@x.org, call +49 170 1234567")) + log_line(chat("Hello"));
  const LogImport result = import_log(log, 64, redactor);
  ASSERT_EQ(result.lines.size(), 2u);
  const std::string all = result.lines[0] + result.lines[1];
  EXPECT_EQ(all.find("jane"), std::string::npos) << all;
  EXPECT_EQ(all.find("1234567"), std::string::npos) << all;
  EXPECT_EQ(redactor.counts().at("email"), 1u) << "the field 'user' is dropped, not redacted";
  EXPECT_EQ(redactor.counts().at("phone"), 1u);
  const auto request = parse_corpus_line(result.lines[0]);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request.value().request["seed"], 77);
  EXPECT_EQ(request.value().request["max_tokens"], 12);
  EXPECT_FALSE(request.value().request.contains("model"));
}

TEST(LogImport, SaysWhatItLeavesOut) {
  Redactor redactor = plain();
  ordered_json forced = chat("x");
  forced["tool_choice"] = "required";
  ordered_json unknown = chat("x");
  unknown["colour"] = "red";
  const std::string log =
      "no json\n{\"event\":\"ready\"}\n" + log_line(chat("same")) + log_line(chat("same")) + log_line(forced) +
      log_line(unknown) + log_line("{\"messages\": [{\"content\": \"cut off he") + log_line("", {{"body", nullptr}}) +
      log_line({{"prompt", {1, 2, 3}}}, {{"path", "/v1/completions"}}) + log_line(chat("refused"), {{"status", 429}}) +
      log_line({{"prompt", {"one", "two"}}, {"max_tokens", 5000}}, {{"path", "/v1/completions"}});
  const LogImport result = import_log(log, 64, redactor);
  EXPECT_EQ(result.lines.size(), 3u);
  EXPECT_EQ(result.seen, 8u);
  EXPECT_EQ(result.repeated, 1u);
  const std::map<std::string, uint64_t> left_out = {{"tool_choice other than auto", 1},
                                                    {"fields that a corpus does not take", 1},
                                                    {"a body that was cut at 16 KiB", 1},
                                                    {"no body: serve with --log-prompts", 1},
                                                    {"token ids, which cannot be redacted", 1}};
  EXPECT_EQ(result.left_out, left_out);
  EXPECT_EQ(parse_corpus_line(result.lines[2]).value().request["max_tokens"], 64);
}

}  // namespace
}  // namespace eadem::audit
