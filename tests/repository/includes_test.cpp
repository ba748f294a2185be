// Checks that files include the headers they use. The builds cannot: their precompiled header
// (cmake/module.cmake) has some for every source, and in a unity file a source has those of the
// sources before it.

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/repository/include_check.h"

namespace graft::tests {
namespace {

constexpr std::string_view kNameLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

struct HeaderNames {
  std::string_view header;
  std::string_view names;  // in std or std::ranges; those that several headers declare are left out
};

constexpr std::array kPrecompiledHeaders = {
    HeaderNames{
        "algorithm",
        "adjacent_find all_of any_of binary_search clamp copy copy_backward copy_if copy_n count "
        "count_if equal equal_range fill fill_n find find_if find_if_not for_each generate "
        "generate_n includes inplace_merge is_sorted lexicographical_compare lower_bound make_heap "
        "max max_element merge min min_element minmax minmax_element mismatch none_of nth_element "
        "partial_sort partition pop_heap push_heap remove_copy_if remove_if replace replace_if "
        "reverse rotate search set_intersection shuffle sort stable_partition stable_sort "
        "transform unique upper_bound"},
    HeaderNames{"filesystem", "filesystem"},
    HeaderNames{"functional",
                "bind_front cref function greater invoke multiplies plus ref "
                "reference_wrapper"},
    HeaderNames{"map", "map multimap"},
    HeaderNames{"memory",
                "enable_shared_from_this make_shared make_unique shared_ptr unique_ptr "
                "weak_ptr"},
    HeaderNames{"nlohmann/json.hpp", "nlohmann"},
    HeaderNames{"optional", "make_optional nullopt optional"},
    HeaderNames{"span", "as_bytes as_writable_bytes span"},
    HeaderNames{"sstream", "istringstream ostringstream stringstream"},
    HeaderNames{"string", "getline stod stof stoi stol stoll stoul stoull string to_string"},
    HeaderNames{"unordered_map", "unordered_map unordered_multimap"},
    HeaderNames{"variant", "get_if holds_alternative monostate variant visit"},
    HeaderNames{"vector", "vector"},
};

// Not precompiled, but one source of a unity file includes them for the next. Names that nearly
// every standard header declares (std::move, std::string_view, std::error_code) are left out.
constexpr std::array kOtherHeaders = {
    HeaderNames{"array", "array to_array"},
    HeaderNames{"atomic", "atomic atomic_flag atomic_ref atomic_thread_fence"},
    HeaderNames{"bit",
                "bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero "
                "has_single_bit popcount rotl"},
    HeaderNames{"charconv", "chars_format from_chars to_chars"},
    HeaderNames{"chrono", "chrono"},
    HeaderNames{"cmath",
                "abs ceil cos erf exp exp2 expm1 floor fma fmod isfinite isinf isnan ldexp "
                "log log1p log2 lround nearbyint pow round sin sqrt tanh trunc"},
    HeaderNames{"complex", "complex polar"},
    HeaderNames{"condition_variable", "condition_variable condition_variable_any"},
    HeaderNames{"csignal", "raise signal"},
    HeaderNames{"cstdio",
                "FILE fclose fflush fopen fprintf fputs fread fwrite printf puts snprintf"},
    HeaderNames{"cstdlib", "abort exit free getenv malloc system"},
    HeaderNames{"cstring", "memchr memcmp memcpy memmove memset strcmp strerror strlen"},
    HeaderNames{"deque", "deque"},
    HeaderNames{"fstream", "fstream ifstream ofstream"},
    HeaderNames{"future", "async future packaged_task promise"},
    HeaderNames{"iostream", "cerr cin cout"},
    HeaderNames{"iterator", "back_inserter inserter istreambuf_iterator make_move_iterator"},
    HeaderNames{"limits", "numeric_limits"},
    HeaderNames{"list", "list"},
    HeaderNames{"mutex", "call_once lock_guard mutex once_flag scoped_lock unique_lock"},
    HeaderNames{"new", "align_val_t bad_alloc nothrow"},
    HeaderNames{"numbers", "numbers"},
    HeaderNames{"numeric", "accumulate exclusive_scan gcd inner_product iota partial_sum reduce"},
    HeaderNames{"queue", "priority_queue queue"},
    HeaderNames{"random",
                "mt19937 mt19937_64 normal_distribution random_device "
                "uniform_int_distribution uniform_real_distribution"},
    HeaderNames{"regex", "regex regex_match regex_replace regex_search smatch"},
    HeaderNames{"set", "multiset set"},
    HeaderNames{"shared_mutex", "shared_lock shared_mutex"},
    HeaderNames{"stdexcept", "invalid_argument logic_error out_of_range runtime_error"},
    HeaderNames{"thread", "jthread this_thread thread"},
    HeaderNames{"unordered_set", "unordered_multiset unordered_set"},
};

// Functions of the system, called as ::name.
constexpr std::array kSystemHeaders = {
    HeaderNames{"dlfcn.h", "dladdr dlclose dlerror dlopen dlsym"},
    HeaderNames{"fcntl.h", "fallocate fcntl open posix_fadvise"},
    HeaderNames{"poll.h", "poll"},
    HeaderNames{"sys/mman.h", "madvise mincore mlock mmap mprotect munmap"},
    HeaderNames{"sys/resource.h", "getrlimit getrusage setrlimit"},
    HeaderNames{"sys/socket.h", "accept bind connect listen recv send setsockopt socket"},
    HeaderNames{"sys/stat.h", "chmod fchmod fstat mkdir stat umask"},
    HeaderNames{"sys/wait.h", "waitpid"},
    HeaderNames{"unistd.h",
                "_exit close dup dup2 execv execvp fork fsync ftruncate getegid geteuid "
                "getpid getppid getuid isatty lseek pipe pread pwrite read readlink rmdir "
                "sleep sysconf unlink usleep write"},
};

// Libraries by the namespace or the beginning of their names; any header of the folder will do.
struct Library {
  std::string_view names;  // "fmt::", or the first letters of a word
  std::string_view header;
};

constexpr std::array kLibraries = {
    Library{"CLI::", "CLI/"},           Library{"EVP_", "openssl/"},
    Library{"XXH3_", "xxhash.h"},       Library{"YAML::", "yaml-cpp/"},
    Library{"boost::", "boost/"},       Library{"fmt::", "fmt/"},
    Library{"hwloc_", "hwloc.h"},       Library{"pcre2_", "pcre2.h"},
    Library{"utf8proc_", "utf8proc.h"},
};

// Header by name.
using HeaderByName = std::map<std::string, std::string, std::less<>>;

void add_rows(std::span<const HeaderNames> rows, HeaderByName& headers) {
  for (const HeaderNames& row : rows) {
    std::istringstream names{std::string(row.names)};
    for (std::string name; names >> name;)
      headers[name] = row.header;
  }
}

const HeaderByName& header_of_name() {
  static const HeaderByName headers = [] {
    HeaderByName all;
    add_rows(kOtherHeaders, all);
    add_rows(kPrecompiledHeaders, all);
    return all;
  }();
  return headers;
}

const HeaderByName& header_of_system_name() {
  static const HeaderByName headers = [] {
    HeaderByName all;
    add_rows(kSystemHeaders, all);
    return all;
  }();
  return headers;
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
  std::vector<std::string> missing;
  const auto need = [&](const std::string& name, const HeaderByName& headers) {
    const auto header = headers.find(name);
    if (header == headers.end() || !included.insert(header->second).second) return;
    missing.push_back(name + " without <" + header->second + ">");
  };
  for (const char* prefix : {"std::", "std::ranges::"}) {
    for (const std::string& name : names_after(text, prefix))
      need(name, header_of_name());
  }
  if (!names_after(text, "nlohmann::").empty()) need("nlohmann", header_of_name());
  for (const char* prefix : {" ::", "(::", "!::"}) {
    for (const std::string& name : names_after(text, prefix))
      need(name, header_of_system_name());
  }
  return missing;
}

// The same for other libraries.
std::vector<std::string> missing_libraries(const Sources& sources, const std::string& text) {
  std::set<std::string> included;
  add_includes(sources, text, included);
  const std::vector<Token> tokens = tokens_of(text);
  std::vector<std::string> missing;
  for (const Library& library : kLibraries) {
    const bool is_namespace = library.names.ends_with("::");
    const std::string_view word = library.names.substr(0, library.names.find(':'));
    bool is_used = false;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const std::string_view next = tokens[i + 1].text;
      is_used |=
          is_namespace ? tokens[i].text == word && next == "::" : tokens[i].text.starts_with(word);
    }
    const bool is_included = std::ranges::any_of(
        included, [&](const std::string& header) { return header.starts_with(library.header); });
    if (is_used && !is_included)
      missing.push_back(std::string(library.names) + " without <" + std::string(library.header) +
                        ">");
  }
  return missing;
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

// Headers may only declare what they use: `namespace CLI { class App; }`.
TEST(Repository, SourcesIncludeTheLibrariesTheyUse) {
  const Sources sources = read_sources();
  for (const auto& [path, text] : sources) {
    if (!path.ends_with(".cpp")) continue;
    for (const std::string& missing : missing_libraries(sources, text))
      ADD_FAILURE() << path << ": " << missing;
  }
}

// Those of kernels/cuda and ops/cuda are compiled one at a time.
TEST(Repository, FilesIncludeTheGraftHeadersTheyUse) {
  const Sources sources = read_sources();
  const GraftIncludes includes(sources);
  for (const auto& [path, text] : sources) {
    if (path.ends_with("-inl.h") || path.ends_with("_bench.cpp") || path.ends_with(".cu") ||
        path.find("/cuda/") != std::string::npos)
      continue;
    for (const std::string& missing : includes.missing(path))
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
  for (const HeaderNames& row : kPrecompiledHeaders)
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

TEST(Repository, IncludeCheckReportsMissingHeadersOfTheSystem) {
  EXPECT_EQ(missing_includes({}, "void f() { x = ::close(1); std::mutex m; }"),
            (std::vector<std::string>{"mutex without <mutex>", "close without <unistd.h>"}));
  EXPECT_EQ(missing_libraries({}, "#include <CLI/App.hpp>\nCLI::App a; fmt::print(x);\n"),
            std::vector<std::string>{"fmt:: without <fmt/>"});
}

TEST(Repository, IncludeCheckReportsMissingGraftHeaders) {
  const std::string header =
      "namespace graft {\nstruct Shape {};\nenum class Kind { Small };\n"
      "inline constexpr int kWidth = 3;\nstd::vector<int> rows_of(\n    int x);\n"
      "#define GRAFT_TWICE(x) (x)\n}\n";
  const std::string uses =
      "Shape s;\nint n = kWidth + rows_of(3)[0];\nauto k = Kind::Small;\nGRAFT_TWICE(1);\n";
  const auto missing = [&](const std::string& text) {
    const Sources sources = {{"graft/a.h", header},
                             {"graft/b.h", "#include \"graft/a.h\"\nShape make();\n"},
                             {"graft/c.h", "struct Table {\n  int rows_of(int x);\n};\n"},
                             {"graft/x.cpp", text}};
    return GraftIncludes(sources).missing("graft/x.cpp");
  };
  EXPECT_EQ(missing(uses),
            (std::vector<std::string>{"GRAFT_TWICE without graft/a.h", "Kind without graft/a.h",
                                      "Shape without graft/a.h", "kWidth without graft/a.h",
                                      "rows_of without graft/a.h"}));
  EXPECT_TRUE(missing("#include \"graft/b.h\"\n" + uses).empty());
  // A member of the same name declares no function of a namespace.
  EXPECT_EQ(missing("#include \"graft/c.h\"\nint n = graft::rows_of(3)[0];\n").size(), 1U);
  EXPECT_TRUE(missing("#include \"graft/c.h\"\nint n = rows_of(3)[0];\n").empty());
  // Members, other libraries, comments, literals, names of its own.
  EXPECT_TRUE(missing("x.rows_of(1); std::rows_of(2); // Shape\nf(\"kWidth\", R\"(Kind)\");\n"
                      "struct Shape {};\nint rows_of(int x);\nint y = rows_of(1);\n")
                  .empty());
}

}  // namespace
}  // namespace graft::tests
