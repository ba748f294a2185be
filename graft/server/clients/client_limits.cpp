#include "graft/server/clients/client_limits.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

#include <yaml-cpp/yaml.h>

#include "graft/base/error.h"

namespace graft::server {
namespace {

constexpr std::size_t kMaxLimitsBytes = 4U << 20U;
// Bounds sums of tokens and products with seconds.
constexpr std::int64_t kMaxLimit = 1'000'000'000'000;

struct LimitField {
  std::string_view name;
  std::optional<std::int64_t> ClientLimits::*value;
};

constexpr std::array kLimitFields = {
    LimitField{"requests_per_minute", &ClientLimits::requests_per_minute},
    LimitField{"tokens_per_minute", &ClientLimits::tokens_per_minute},
    LimitField{"concurrent_answers", &ClientLimits::concurrent_answers},
    LimitField{"queued_tokens", &ClientLimits::queued_tokens},
};

std::string limit_names() {
  std::string names;
  for (const LimitField& field : kLimitFields)
    names.append(names.empty() ? "" : ", ").append(field.name);
  return names;
}

std::string line_of(const std::string& where, const YAML::Node& node) {
  return str(where, ":", node.Mark().line + 1);
}

std::string scalar_of(const YAML::Node& node, const std::string& where) {
  if (!node.IsScalar()) fail(line_of(where, node), ": expected a name");
  return node.Scalar();
}

std::optional<std::int64_t> limit_of(const YAML::Node& node,
                                     const std::string& name,
                                     const std::string& where) {
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  if (text == "unlimited") return std::nullopt;
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 1 || value > kMaxLimit) {
    fail(line_of(where, node), ": ", name, ": expected 1 to ", kMaxLimit, " or unlimited, got '",
         text, "'");
  }
  return value;
}

ClientLimits limits_of(const YAML::Node& node, ClientLimits limits, const std::string& where) {
  if (node.IsNull()) return limits;
  if (!node.IsMap())
    fail(line_of(where, node), ": expected limits like \"requests_per_minute: 60\"");
  for (const auto& entry : node) {
    const std::string name = scalar_of(entry.first, where);
    const auto* field = std::ranges::find(kLimitFields, name, &LimitField::name);
    if (field == kLimitFields.end()) {
      fail(line_of(where, entry.first), ": unknown limit '", name, "'; expected one of ",
           limit_names());
    }
    limits.*(field->value) = limit_of(entry.second, name, where);
  }
  return limits;
}

// `name`: the name of a key, or sha256: and its digest.
std::uint64_t client_named(const std::string& name, const ApiKeys& keys, const std::string& where) {
  constexpr std::string_view kHashed = "sha256:";
  const auto& list = keys.list();
  const bool is_digest = name.starts_with(kHashed);
  const auto found =
      is_digest ? std::ranges::find(list, parse_digest(name.substr(kHashed.size()), where),
                                    &ApiKey::digest)
                : std::ranges::find_if(list, [&](const ApiKey& key) { return key.name == name; });
  if (found == list.end() || name.empty()) {
    fail(where, ": no API key ", is_digest ? "has the digest '" : "is named '", name,
         is_digest ? "'" : "'; add name=NAME after the key in the file of --api-key-file");
  }
  return found->id();
}

YAML::Node parse_yaml(const std::string& text, const std::string& where) {
  if (text.size() > kMaxLimitsBytes)
    fail(where, ": has ", text.size(), " bytes, max ", kMaxLimitsBytes);
  try {
    return YAML::Load(text);
  } catch (const YAML::ParserException& parse) {
    fail(where, ":", parse.mark.line + 1, ": ", parse.msg);
  } catch (const YAML::Exception& broken) {
    fail(where, ": ", broken.what());
  }
}

}  // namespace

LimitTable LimitTable::parse(const std::string& text,
                             const std::string& where,
                             const ClientLimits& flags,
                             const ApiKeys& keys) {
  const YAML::Node root = parse_yaml(text, where);
  if (!root.IsMap()) fail(where, ":1: expected 'default:' or 'keys:' with limits");
  for (const auto& entry : root) {
    const std::string name = scalar_of(entry.first, where);
    if (name != "default" && name != "keys") {
      fail(line_of(where, entry.first), ": unknown key '", name, "'; expected 'default' or 'keys'");
    }
  }
  LimitTable table(root["default"] ? limits_of(root["default"], flags, where) : flags);
  const YAML::Node by_key = root["keys"];
  if (!by_key || by_key.IsNull()) return table;
  if (!by_key.IsMap())
    fail(line_of(where, by_key), ": expected names or digests of API keys with limits");
  for (const auto& entry : by_key) {
    const std::string line = line_of(where, entry.first);
    const std::uint64_t client = client_named(scalar_of(entry.first, where), keys, line);
    const ClientLimits limits = limits_of(entry.second, table.default_, where);
    if (!table.by_client_.emplace(client, limits).second)
      fail(line, ": this key already has limits above");
  }
  return table;
}

const ClientLimits& LimitTable::of(std::uint64_t client) const {
  const auto found = by_client_.find(client);
  return found == by_client_.end() ? default_ : found->second;
}

}  // namespace graft::server
