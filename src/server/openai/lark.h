// Pieces of Lark grammars, in llguidance's dialect.
#pragma once

#include <string>
#include <string_view>

namespace eadem::server {

// A text as a literal of a grammar.
std::string lark_text(std::string_view text);

// A regular expression as a terminal of a grammar.
std::string lark_regex(std::string_view regex);

// A JSON schema (the text of an object) as a rule's body: JSON with a space, or a line break and indentation, between
// its tokens at most, as guides of a schema alone have it.
std::string lark_schema(std::string_view schema);

}  // namespace eadem::server
