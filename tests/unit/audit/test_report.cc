// The page of a result: what it shows without scripts, and that no text of a document gets out of its place.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "audit/report.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

size_t count(std::string_view text, std::string_view piece) {
  size_t found = 0;
  for (size_t at = text.find(piece); at != std::string_view::npos; at = text.find(piece, at + piece.size())) {
    ++found;
  }
  return found;
}

// What stands between the data element's tags.
std::string data_of(const std::string& page) {
  const std::string_view open = "<script type=\"application/json\" id=\"document\">";
  const size_t start = page.find(open) + open.size();
  return page.substr(start, page.find("</script>", start) - start);
}

ordered_json sample(const std::string& kind) {
  return {{"kind", kind},
          {"verdict", "fail"},
          {"summary", "One cell fails."},
          {"subject", {{"model", "smollm2-135m"}, {"numerics", "int8-v1"}}},
          {"counts", {{"pass", 12}, {"fail", 1}}},
          {"cells", {{{"name", "batch.size"}, {"verdict", "pass"}}, {{"name", "threads"}, {"verdict", "fail"}}}}};
}

TEST(Report, EveryKindHasAPage) {
  for (const char* kind : {"accept", "gate", "cost", "diff", "near-tie"}) {
    const ordered_json document = sample(kind);
    const std::string page = report_page(document);
    EXPECT_EQ(ordered_json::parse(data_of(page)), document) << kind;
    EXPECT_EQ(page.find("@@"), std::string::npos) << kind;
    EXPECT_EQ(count(page, "<title>"), 1u);
    EXPECT_NE(page.find(": smollm2-135m</title>"), std::string::npos) << kind;
  }
}

TEST(Report, UnknownKindsAreABug) {
  EXPECT_DEATH(report_page({{"kind", "acceptance"}}), "title_of_kind");
  EXPECT_DEATH(report_page({{"kind", 7}}), "title_of_kind");
  EXPECT_DEATH(report_page(ordered_json::object()), "title_of_kind");
  EXPECT_DEATH(report_page(ordered_json::array()), "is_object");
}

TEST(Report, TellsTheFactsWithoutScripts) {
  const std::string page = report_page(sample("accept"));
  for (const char* piece :
       {"<h1>Acceptance: smollm2-135m</h1>", "<p class=\"banner bad\"><strong>fail</strong> One cell fails.</p>",
        "<caption>Result: counts</caption>", "<tr><th scope=\"row\">pass</th><td>12</td></tr>",
        "<caption>Result: cells</caption>", "<tr><th scope=\"row\">threads</th><td>fail</td></tr>",
        "<tr><th scope=\"row\">numerics</th><td>int8-v1</td></tr>"}) {
    EXPECT_EQ(count(page, piece), 1u) << piece;
  }
}

TEST(Report, LoadsNothing) {
  const std::string_view page = report_template();
  EXPECT_EQ(count(page, "default-src 'none'; script-src 'sha256-"), 1u);
  EXPECT_EQ(count(page, "unsafe"), 0u);
  for (const char* piece : {" src=", "@import", "url(", "fetch(", "XMLHttpRequest", "import("}) {
    EXPECT_EQ(count(page, piece), 0u) << piece;
  }
  EXPECT_EQ(count(page, " href="), count(page, " href=\"#"));
}

TEST(Report, HostileTextsStayTexts) {
  const ordered_json clean = sample("gate");
  const std::string harmless = report_page(clean);
  for (const std::string hostile :
       {"</script><script>alert(1)</script>", "<!--<script>", "-->", "</title></main><h2>", "\"onload='x'", "&lt;",
        "@@DOCUMENT@@@@TITLE@@@@SUMMARY@@", "]]>", "\xff\xfe<b>", "\xe2\x80\xa8", "\\u003c/script>", "$&$1"}) {
    ordered_json document = clean;
    document["summary"] = hostile;
    document["verdict"] = hostile;
    document["subject"]["model"] = hostile;
    document["subject"][hostile] = hostile;
    document["cells"][0]["name"] = hostile;
    document["cells"][0]["verdict"] = hostile;
    document[hostile] = ordered_json::object({{hostile, hostile}});
    const std::string page = report_page(document);
    for (const char* piece : {"<script", "</script", "<!--", "<title", "</title", "<main", "</main", "<b>", "<h2"}) {
      EXPECT_EQ(count(page, piece), count(harmless, piece)) << hostile << " " << piece;
    }
    const ordered_json data = ordered_json::parse(data_of(page));
    const bool valid = hostile[0] != '\xff';
    EXPECT_EQ(data["summary"], valid ? hostile : "\xef\xbf\xbd\xef\xbf\xbd<b>");
  }
}

}  // namespace
}  // namespace eadem::audit
