// Base64 decoding (RFC 4648).

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace graft {

// nullopt when `text` is not valid base64. Padding is optional.
inline std::optional<std::string> base64_decode(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int i = 0; i < 2 && text.ends_with('='); ++i)
    text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    const auto digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = (bits << 6U) | static_cast<std::uint32_t>(digit);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes += static_cast<char>(static_cast<std::uint8_t>(bits >> static_cast<unsigned>(num_bits)));
  }
  return bytes;
}

}  // namespace graft
