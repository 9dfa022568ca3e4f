// Parts of error messages. Names come from untrusted files, and a message must stay one line that a terminal can show.
#pragma once

#include <string>
#include <string_view>

namespace eadem::weights {

// 'name' with control characters and broken bytes as \xNN, cut after 80 bytes.
inline std::string quote(std::string_view name) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr size_t kLimit = 80;
  std::string text = "'";
  for (const char c : name.substr(0, kLimit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      text += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      text += c;
    }
  }
  return text + (name.size() > kLimit ? "...'" : "'");
}

inline constexpr std::string_view kFetchAgain = "the download is incomplete; fetch it again";
inline constexpr std::string_view kDamaged =
    "the file is damaged or was written by a faulty tool; fetch or convert it again";

}  // namespace eadem::weights
