// Checks that files include the standard headers they use. The builds cannot: their precompiled
// header (cmake/module.cmake) has these headers for every source.

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr std::string_view kNameLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

struct PrecompiledHeader {
  std::string_view header;
  std::string_view names;  // in std or std::ranges; those that several headers declare are left out
};

constexpr std::array kPrecompiledHeaders = {
    PrecompiledHeader{
        "algorithm",
        "adjacent_find all_of any_of binary_search clamp copy copy_backward copy_if copy_n count "
        "count_if equal equal_range fill fill_n find find_if find_if_not for_each generate "
        "generate_n includes inplace_merge is_sorted lexicographical_compare lower_bound make_heap "
        "max max_element merge min min_element minmax minmax_element mismatch none_of nth_element "
        "partial_sort partition pop_heap push_heap remove_copy_if remove_if replace replace_if "
        "reverse rotate search set_intersection shuffle sort stable_partition stable_sort "
        "transform unique upper_bound"},
    PrecompiledHeader{"filesystem", "filesystem"},
    PrecompiledHeader{"functional",
                      "bind_front cref function greater invoke multiplies plus ref "
                      "reference_wrapper"},
    PrecompiledHeader{"map", "map multimap"},
    PrecompiledHeader{"memory",
                      "enable_shared_from_this make_shared make_unique shared_ptr unique_ptr "
                      "weak_ptr"},
    PrecompiledHeader{"nlohmann/json.hpp", "nlohmann"},
    PrecompiledHeader{"optional", "make_optional nullopt optional"},
    PrecompiledHeader{"span", "as_bytes as_writable_bytes span"},
    PrecompiledHeader{"sstream", "istringstream ostringstream stringstream"},
    PrecompiledHeader{"string", "getline stod stof stoi stol stoll stoul stoull string to_string"},
    PrecompiledHeader{"unordered_map", "unordered_map unordered_multimap"},
    PrecompiledHeader{"variant", "get_if holds_alternative monostate variant visit"},
    PrecompiledHeader{"vector", "vector"},
};

// Header by name.
const std::map<std::string, std::string, std::less<>>& header_of_name() {
  static const auto headers = [] {
    std::map<std::string, std::string, std::less<>> all;
    for (const PrecompiledHeader& row : kPrecompiledHeaders) {
      std::istringstream names{std::string(row.names)};
      for (std::string name; names >> name;)
        all[name] = row.header;
    }
    return all;
  }();
  return headers;
}

// Text of each file by the path that #include names.
using Sources = std::map<std::string, std::string>;

std::set<std::string> direct_includes(const std::string& text) {
  std::set<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#include ") || line.size() < 11) continue;
    const std::size_t end = line.find_first_of(">\"", 10);
    found.insert(line.substr(10, end - 10));
  }
  return found;
}

// Adds all headers that the text includes, directly or through files of `sources`.
void add_includes(const Sources& sources, const std::string& text, std::set<std::string>& found) {
  for (const std::string& header : direct_includes(text)) {
    if (!found.insert(header).second) continue;
    if (const auto source = sources.find(header); source != sources.end())
      add_includes(sources, source->second, found);
  }
}

// False in a comment or a string that begins on the same line.
bool is_code(std::string_view text, std::size_t position) {
  const std::string_view line =
      text.substr(0, position).substr(text.substr(0, position).rfind('\n') + 1);
  return line.find("//") == std::string_view::npos && std::ranges::count(line, '"') % 2 == 0;
}

// The names used as prefix::name.
std::vector<std::string> names_after(std::string_view text, std::string_view prefix) {
  std::vector<std::string> names;
  for (std::size_t at = text.find(prefix); at != std::string_view::npos;
       at = text.find(prefix, at + 1)) {
    const std::size_t begin = at + prefix.size();
    const std::size_t end = text.find_first_not_of(kNameLetters, begin);
    if (is_code(text, at)) names.emplace_back(text.substr(begin, end - begin));
  }
  return names;
}

// "sort without <algorithm>", one per missing header.
std::vector<std::string> missing_includes(const Sources& sources, const std::string& text) {
  std::set<std::string> included;
  add_includes(sources, text, included);
  std::vector<std::string> names = names_after(text, "std::");
  const std::vector<std::string> ranges = names_after(text, "std::ranges::");
  names.insert(names.end(), ranges.begin(), ranges.end());
  if (!names_after(text, "nlohmann::").empty()) names.emplace_back("nlohmann");
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    const auto header = header_of_name().find(name);
    if (header == header_of_name().end() || !included.insert(header->second).second) continue;
    missing.push_back(name + " without <" + header->second + ">");
  }
  return missing;
}

Sources read_sources() {
  static const std::set<std::string> suffixes = {".h", ".cpp", ".cuh", ".cu"};
  const std::filesystem::path root = GRAFT_SOURCE_DIR;
  Sources sources;
  for (const char* folder : {"graft", "include/graft", "tests"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (!suffixes.contains(entry.path().extension().string())) continue;
      std::string path = entry.path().lexically_relative(root).string();
      if (path.starts_with("include/")) path.erase(0, std::string_view("include/").size());
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      sources[path] = text.str();
    }
  }
  return sources;
}

TEST(Repository, FilesIncludeTheStandardHeadersTheyUse) {
  const Sources sources = read_sources();
  EXPECT_GT(sources.size(), 100U);
  for (const auto& [path, text] : sources) {
    if (path.ends_with("-inl.h")) continue;  // its includes are in the files that include it
    for (const std::string& missing : missing_includes(sources, text))
      ADD_FAILURE() << path << ": " << missing;
  }
}

// The table above is that of the build.
TEST(Repository, IncludeCheckKnowsThePrecompiledHeaders) {
  std::ostringstream cmake;
  cmake << std::ifstream(std::filesystem::path(GRAFT_SOURCE_DIR) / "cmake/module.cmake").rdbuf();
  const std::string text = cmake.str();
  static const std::regex header(R"(\n\s*(?:list\(APPEND headers )?<([a-z_/.]+)>)");
  std::set<std::string> in_cmake;
  for (std::sregex_iterator it(text.begin(), text.end(), header), end; it != end; ++it)
    in_cmake.insert((*it)[1]);
  std::set<std::string> in_table;
  for (const PrecompiledHeader& row : kPrecompiledHeaders)
    in_table.emplace(row.header);
  EXPECT_EQ(in_cmake, in_table);
}

TEST(Repository, IncludeCheckReportsMissingHeaders) {
  const Sources sources = {{"graft/a.h", "#include \"graft/b.h\"\n"},
                           {"graft/b.h", "#include <vector>\n#include \"graft/a.h\"\n"}};
  const std::string uses =
      "// std::map\nstd::vector<int> v;\nstd::ranges::sort(v);\nstd::sort(v.begin(), v.end());\n"
      "nlohmann::json j;\n";
  EXPECT_EQ(missing_includes(sources, "#include \"graft/a.h\"\n" + uses),
            (std::vector<std::string>{"sort without <algorithm>",
                                      "nlohmann without <nlohmann/json.hpp>"}));
  EXPECT_EQ(missing_includes(sources, uses).size(), 3U);
  EXPECT_FALSE(is_code("print(\"x", 7));
  EXPECT_TRUE(
      missing_includes(
          sources,
          "#include <algorithm>\n#include <nlohmann/json.hpp>\n#include \"graft/b.h\"\n" + uses)
          .empty());
}

}  // namespace
}  // namespace graft
