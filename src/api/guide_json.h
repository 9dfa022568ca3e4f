// The fields of a request that ask for a guide: OpenAI's response_format, vLLM's guided_* and structured_outputs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "core/result.h"
#include "eadem/request.h"

namespace eadem::api {

// response_format, guided_json, guided_regex, guided_grammar, guided_choice, structured_outputs.
bool is_guide_field(std::string_view field);

// One such field. None where it leaves the text free (response_format of type text). Errors name the field.
Result<std::optional<Guide>> read_guide(const nlohmann::ordered_json& value, std::string_view field);

// The name of the field that asks for a guide in a request; empty where none does.
std::string_view guide_field(const nlohmann::ordered_json& request);

// guided_json, guided_regex or guided_grammar, added to `object`; read_guide reads it back.
void write_guide(const Guide& guide, nlohmann::ordered_json& object);

}  // namespace eadem::api
