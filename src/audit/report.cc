#include "audit/report.h"

#include <array>
#include <span>
#include <utility>

#include "core/check.h"
#include "core/embedded_file.h"

namespace eadem::audit {

std::span<const EmbeddedFile> report_files();  // web/dist/report

namespace {

using nlohmann::ordered_json;

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kTitles = {{
    {"accept", "Acceptance"},
    {"gate", "Drift gate"},
    {"cost", "Cost of the contract"},
    {"diff", "Comparison"},
    {"near-tie", "Near ties"},
}};

// Empty for an unknown kind.
std::string_view title_of_kind(std::string_view kind) {
  for (const auto& [name, title] : kTitles) {
    if (name == kind) {
      return title;
    }
  }
  return {};
}

// JSON text; bytes that are no UTF-8 become U+FFFD instead of an error.
std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
}

// A string as it is, anything else as JSON.
std::string plain(const ordered_json& value) {
  const std::string text = dump(value);
  return value.is_string() ? ordered_json::parse(text).get<std::string>() : text;
}

std::string text_at(const ordered_json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? std::string() : plain(*found);
}

// As text or as an attribute's value.
std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

// JSON inside <script>: `<` stands in strings only, where its escape means the same, and no end tag, comment or other
// markup can begin without it.
std::string as_script_data(const ordered_json& document) {
  std::string out;
  for (const char c : dump(document)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string row(std::string_view name, const ordered_json& value) {
  return "<tr><th scope=\"row\">" + escaped(name) + "</th><td>" + escaped(plain(value)) + "</td></tr>\n";
}

std::string table(std::string_view caption, const std::string& rows) {
  return rows.empty() ? "" : "<table>\n<caption>" + escaped(caption) + "</caption>\n" + rows + "</table>\n";
}

// The name of a row of a list: of a cell, a request, a level...
std::string name_of(const ordered_json& entry) {
  for (const char* key : {"name", "id", "level", "metric"}) {
    if (std::string name = text_at(entry, key); !name.empty()) {
      return name;
    }
  }
  return "(no name)";
}

// Name and verdict of each entry of a list that has verdicts.
std::string verdicts(const ordered_json& list) {
  std::string rows;
  for (const ordered_json& entry : list) {
    if (entry.is_object() && entry.contains("verdict")) {
      rows += row(name_of(entry), entry["verdict"]);
    }
  }
  return rows;
}

// Tables of the scalars of `object` and, to a depth of one, of what it holds.
std::string tables(const ordered_json& object, const std::string& caption, bool deeper) {
  std::string rows, below;
  for (const auto& [key, value] : object.items()) {
    const std::string name = caption + ": " + key;
    if (value.is_object()) {
      below += deeper ? tables(value, name, false) : "";
    } else if (value.is_array()) {
      below += table(name, verdicts(value));
    } else {
      rows += row(key, value);
    }
  }
  return table(caption, rows) + below;
}

std::string title_of(const ordered_json& document) {
  std::string title(title_of_kind(text_at(document, "kind")));
  const ordered_json empty = ordered_json::object();
  for (const char* holder : {"", "subject", "conditions"}) {  // who the page is about
    const auto found = document.find(holder);
    const ordered_json& object = *holder == '\0' ? document : found == document.end() ? empty : *found;
    if (std::string model = object.is_object() ? text_at(object, "model") : ""; !model.empty()) {
      return title + ": " + model;
    }
  }
  return title;
}

std::string static_part(const ordered_json& document, const std::string& title) {
  const std::string verdict = text_at(document, "verdict");
  const std::string_view tone = verdict == "pass" ? "good" : verdict == "fail" ? "bad" : "none";
  std::string out = "<h1>" + escaped(title) + "</h1>\n<p class=\"banner " + std::string(tone) + "\"><strong>";
  out += escaped(verdict) + "</strong> ";
  out += escaped(text_at(document, "summary")) + "</p>\n";
  out +=
      "<noscript><p>Scripts are off: this is the short form. With scripts on, this file shows all of its tables and "
      "charts; it loads nothing from anywhere.</p></noscript>\n";
  return out + tables(document, "Result", true);
}

}  // namespace

std::string_view report_template() { return report_files().front().bytes; }

std::string report_page(const ordered_json& document) {
  EADEM_CHECK(document.is_object());
  EADEM_CHECK(!title_of_kind(text_at(document, "kind")).empty());
  const std::string title = title_of(document);
  const std::array<std::pair<std::string_view, std::string>, 3> parts = {{
      {"@@TITLE@@", escaped(title)},
      {"@@SUMMARY@@", static_part(document, title)},
      {"@@DOCUMENT@@", as_script_data(document)},
  }};
  std::string page;
  std::string_view rest = report_template();
  for (const auto& [mark, text] : parts) {  // in their order, so that a mark inside a text is only text
    const size_t at = rest.find(mark);
    EADEM_CHECK(at != std::string_view::npos);
    page.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + mark.size());
  }
  return page.append(rest);
}

}  // namespace eadem::audit
