// Files of a project on a Python package index (PEP 503 and PEP 691).
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"
#include "fetch/pull.h"

namespace eadem::fetch {

// The index that pip would use: PIP_INDEX_URL; else `index-url` of [global] in $PIP_CONFIG_FILE, the user's, the
// environment's or the system's pip.conf; else https://pypi.org/simple. Without a slash at its end.
std::string python_index_url();

// `index-url` in the [global] section of the text of a pip.conf; empty where there is none.
std::string index_url_of_config(std::string_view text);

struct IndexFile {
  std::string url;
  std::string sha256;  // empty where the index gives none
};
// The link of `filename` on a project's page, JSON or HTML; `base` is the page's own URL.
Result<IndexFile> find_on_page(const std::string& page, const std::string& content_type, const std::string& base,
                               const std::string& filename);

// The link of `filename` of `project` (normalised name) on python_index_url().
Result<IndexFile> find_on_index(const std::string& project, const std::string& filename, const PullOptions& options);

}  // namespace eadem::fetch
