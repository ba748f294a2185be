// JSON from files we did not write: strict, with an Error that says where.

#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace graft {

using Json = nlohmann::json;
// Keeps the order of keys, as Python's dict does.
using OrderedJson = nlohmann::ordered_json;

// Refuses what the standard leaves open and attackers use: duplicate keys, nesting over 128, text
// after the value. `where` opens the message of the Error.
Json parse_json(std::string_view text, const std::string& where);
// The same, keys in the order of the text.
OrderedJson parse_ordered_json(std::string_view text, const std::string& where);

// A JSON file of at most `max_bytes`.
Json read_json_file(const std::filesystem::path& path, std::size_t max_bytes = 256U << 20U);
OrderedJson read_ordered_json_file(const std::filesystem::path& path,
                                   std::size_t max_bytes = 256U << 20U);

}  // namespace graft
