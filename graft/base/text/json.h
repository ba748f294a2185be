// Strict JSON parsing of untrusted files; the Error names the file and the position.

#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace graft {

using Json = nlohmann::json;
// Keeps keys in insertion order, like Python's dict.
using OrderedJson = nlohmann::ordered_json;

// Rejects what the standard leaves open and attackers use: duplicate keys, nesting over 128, text
// after the value. `where` is the prefix of the Error message.
Json parse_json(std::string_view text, const std::string& where);
// The same with keys in the order of the text. Throws Error for more than `max_values`.
OrderedJson parse_ordered_json(std::string_view text,
                               const std::string& where,
                               std::size_t max_values = std::numeric_limits<std::size_t>::max());

// Throws Error for files over `max_bytes`.
Json read_json_file(const std::filesystem::path& path, std::size_t max_bytes = 256U << 20U);
OrderedJson read_ordered_json_file(const std::filesystem::path& path,
                                   std::size_t max_bytes = 256U << 20U);

}  // namespace graft
