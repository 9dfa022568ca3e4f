// Helpers around the C interface of the Rust library; for the .cc files of this folder alone.
#pragma once

#include <eadem_text.h>

#include <string>
#include <string_view>

#include "core/result.h"

namespace eadem::text {

inline EademBytes to_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline std::string_view to_view(EademBytes bytes) { return {reinterpret_cast<const char*>(bytes.data), bytes.size}; }

// Copies and releases a buffer of the library.
inline std::string take(EademBuffer buffer) {
  std::string text(reinterpret_cast<const char*>(buffer.data), buffer.size);
  eadem_buffer_free(buffer);
  return text;
}

}  // namespace eadem::text
