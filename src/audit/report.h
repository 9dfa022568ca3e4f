// The page of a result: one HTML file that needs no network, no other file and no server, to read, print and keep.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace eadem::audit {

// The page of `document`, whose field "kind" is accept, gate, cost, diff or near-tie (anything else is a bug). The page
// carries the document as JSON and draws its tables and charts from it by a script of its own; what it shows without
// scripts (title, verdict, every fact of the first two levels, the verdict of each row) is written here. All texts of
// the document are taken as hostile: they may hold markup or bytes that are no UTF-8.
//
// Read from every kind, each optional: "verdict" (pass, fail or done), "summary" (one sentence), "subject" (model,
// numerics, mode, identity, deployment), "machine", "program", "counts" (name: integer), "date", "command", "seconds".
std::string report_page(const nlohmann::ordered_json& document);

// The page without a document, as web/ makes it (web/dist/report/report.html).
std::string_view report_template();

}  // namespace eadem::audit
