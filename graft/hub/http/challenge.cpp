#include "graft/hub/http/challenge.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/base/text/json.h"
#include "graft/hub/fields.h"
#include "graft/hub/http/http.h"

namespace graft::hub {
namespace {

constexpr std::size_t kMaxTokenBytes = 16U << 10U;

// name="value", separated by commas.
std::map<std::string, std::string> parameters_of(std::string_view text) {
  std::map<std::string, std::string> parameters;
  while (true) {
    const std::size_t quote = text.find("=\"");
    if (quote == std::string_view::npos) return parameters;
    const std::size_t end = text.find('"', quote + 2);
    if (end == std::string_view::npos) return parameters;
    const std::string name = lower_case(trimmed(text.substr(0, quote), " \t,"));
    parameters[name] = std::string(text.substr(quote + 2, end - quote - 2));
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::optional<std::string> token_url(std::string_view challenge) {
  constexpr std::string_view kScheme = "bearer ";
  if (lower_case(challenge.substr(0, kScheme.size())) != kScheme) return std::nullopt;
  const auto parameters = parameters_of(challenge.substr(kScheme.size()));
  const auto realm = parameters.find("realm");
  if (realm == parameters.end()) return std::nullopt;
  std::string url = realm->second;
  if (!url.starts_with("http://") && !url.starts_with("https://")) return std::nullopt;
  for (const char* name : {"service", "scope"}) {
    const auto found = parameters.find(name);
    if (found == parameters.end()) continue;
    url +=
        str(url.find('?') == std::string::npos ? "?" : "&", name, "=", encode_path(found->second));
  }
  return url;
}

std::string parse_token(std::string_view json, const std::string& where) {
  const Json answer = parse_json(json, where);
  std::string token = optional_string(answer, "token");
  if (token.empty()) token = optional_string(answer, "access_token");
  if (token.empty()) fail(where, ": the answer has no token");
  const bool is_plain = std::ranges::all_of(token, [](char c) { return c > ' ' && c <= '~'; });
  if (!is_plain || token.size() > kMaxTokenBytes) fail(where, ": not a token for a header");
  return token;
}

std::string origin_of(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return {};
  return lower_case(url.substr(0, url.find_first_of("/?#", scheme + 3)));
}

}  // namespace graft::hub
