#include "graft/server/http/message.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <random>

#include <fmt/format.h>

#include "graft/base/text/ascii.h"

namespace graft::server::http {
namespace {

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

bool is_valid_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         std::ranges::all_of(id, [](char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

std::string request_id(std::string_view given) {
  static const std::uint64_t process =
      (std::uint64_t{std::random_device{}()} << 32U) | std::uint64_t{std::random_device{}()};
  static std::atomic<std::uint64_t> next = 0;
  if (is_valid_id(given)) return std::string(given);
  return fmt::format("req-{:016x}-{}", process, ++next);
}

std::string_view Request::header(std::string_view name) const {
  for (const Header& header : headers) {
    if (header.name == name) return header.value;
  }
  return {};
}

std::vector<std::string> Request::items(std::string_view name) const {
  constexpr std::string_view kBlanks = " \t";
  std::vector<std::string> items;
  for (const Header& header : headers) {
    if (header.name != name) continue;
    std::string_view list = header.value;
    while (!list.empty()) {
      const std::string_view item = list.substr(0, list.find(','));
      list.remove_prefix(std::min(item.size() + 1, list.size()));
      if (const std::string_view text = trimmed(item, kBlanks); !text.empty())
        items.emplace_back(text);
    }
  }
  return items;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const auto high = hex_digit(text[i + 1]);
      const auto low = hex_digit(text[i + 2]);
      if (high && low) {
        out += static_cast<char>(*high * 16 + *low);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

}  // namespace graft::server::http
