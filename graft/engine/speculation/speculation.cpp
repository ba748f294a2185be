#include "graft/engine/speculation/speculation.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>

#include "graft/base/error.h"
#include "graft/base/text/str.h"

namespace graft::engine {
namespace {

// A verified token needs a row of logits.
constexpr std::int64_t kMaxTokens = 64;
constexpr std::int64_t kMaxMatch = 1024;

std::optional<std::int64_t> count_of(std::string_view text, std::int64_t max) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || count < 1 || count > max) return std::nullopt;
  return count;
}

std::optional<Speculation> parse(std::string_view text) {
  Speculation out;
  if (text == "off") return out;
  out.method = Speculation::Method::Ngram;
  if (text == "auto") {
    out.is_automatic = true;
    return out;
  }
  const std::size_t colon = text.find(':');
  if (text.substr(0, colon) != "ngram") return std::nullopt;
  if (colon == std::string_view::npos) return out;
  const std::string_view counts = text.substr(colon + 1);
  const std::size_t comma = counts.find(',');
  if (comma == std::string_view::npos) return std::nullopt;
  const auto min_match = count_of(counts.substr(0, comma), kMaxMatch);
  const auto max_tokens = count_of(counts.substr(comma + 1), kMaxTokens);
  if (!min_match || !max_tokens) return std::nullopt;
  out.min_match = *min_match;
  out.max_tokens = *max_tokens;
  return out;
}

}  // namespace

Speculation parse_speculation(std::string_view text) {
  const auto parsed = parse(text);
  if (!parsed) {
    fail("'", text, "': expected off, auto, ngram or ngram:N,K with N from 1 to ", kMaxMatch,
         " and K from 1 to ", kMaxTokens, ", as in ngram:3,5");
  }
  return *parsed;
}

std::string to_string(const Speculation& speculation) {
  if (speculation.method == Speculation::Method::Off) return "off";
  if (speculation.is_automatic) return "auto";
  return str("ngram:", speculation.min_match, ',', speculation.max_tokens);
}

}  // namespace graft::engine
