// Checks conventions of the repository: layers, paths and quotes in documents, and vocabulary.

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/shared_data.h"

namespace fs = std::filesystem;

namespace graft {
namespace {

const fs::path kRoot = GRAFT_SOURCE_DIR;

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

using Layers = std::map<std::string, std::set<std::string>>;

// Maps each folder to the folders it may include, from the graft_module() lines. A folder may name
// only folders listed before it, which rules out cycles.
Layers read_layers(const std::string& cmake, std::vector<std::string>& errors) {
  static const std::regex module(R"(\ngraft_module\((\w+)([^)]*)\))");
  Layers layers;
  for (std::sregex_iterator it(cmake.begin(), cmake.end(), module), end; it != end; ++it) {
    const std::string name = (*it)[1];
    std::istringstream words((*it)[2]);
    std::set<std::string> deps;
    bool in_deps = false;
    for (std::string word; words >> word;) {
      const bool is_keyword =
          std::ranges::all_of(word, [](char c) { return c == '_' || (c >= 'A' && c <= 'Z'); });
      if (is_keyword) {
        in_deps = word == "DEPS";
      } else if (in_deps) {
        if (!layers.contains(word)) errors.push_back(name + " names " + word + " before it");
        deps.insert(word);
      }
    }
    layers[name] = deps;
  }
  return layers;
}

// The included folders that `folder` must not include.
std::vector<std::string> forbidden(const Layers& layers,
                                   const std::string& folder,
                                   const std::string& text) {
  static const std::regex include(R"re((?:^|\n)\s*#\s*include\s*"graft/(\w+)/)re");
  std::vector<std::string> found;
  const auto layer = layers.find(folder);
  for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it) {
    const std::string used = (*it)[1];
    if (used == folder) continue;
    if (layer == layers.end() || !layer->second.contains(used)) found.push_back(used);
  }
  return found;
}

TEST(Repository, FilesIncludeOnlyTheirLayers) {
  std::vector<std::string> errors;
  const Layers layers = read_layers(read_text(kRoot / "CMakeLists.txt"), errors);
  EXPECT_TRUE(errors.empty()) << errors.front();
  ASSERT_GT(layers.size(), 5U);
  std::size_t num_files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "graft")) {
    static const std::set<std::string> suffixes = {".h", ".cpp", ".cuh", ".cu"};
    if (!suffixes.contains(entry.path().extension().string())) continue;
    ++num_files;
    const fs::path relative = entry.path().lexically_relative(kRoot / "graft");
    const std::string folder = relative.begin()->string();
    if (folder == "testing") continue;  // test helpers, not part of the program
    EXPECT_TRUE(layers.contains(folder)) << "graft/" << folder << " is not in CMakeLists.txt";
    for (const std::string& used : forbidden(layers, folder, read_text(entry.path())))
      if (used != "testing" || !relative.stem().string().ends_with("_test"))
        ADD_FAILURE() << "graft/" << relative.string() << ": " << folder << " may not include "
                      << used;
  }
  EXPECT_GT(num_files, 10U);
}

TEST(Repository, LayerCheckReportsForbiddenIncludes) {
  std::vector<std::string> errors;
  const Layers layers = read_layers(
      "\ngraft_module(base LIBS fmt)\ngraft_module(low DEPS base high)\n"
      "graft_module(high DEPS base low LIBS x)\n",
      errors);
  EXPECT_EQ(errors, std::vector<std::string>{"low names high before it"});
  const std::string text = "#include \"graft/base/a.h\"\n# include \"graft/high/b.h\"\n";
  EXPECT_EQ(forbidden(layers, "base", text), std::vector<std::string>{"high"});
  EXPECT_TRUE(forbidden(layers, "high", text).empty());
}

// A folder with more files is hard to read.
TEST(Repository, FoldersOfSourcesAreSmall) {
  constexpr std::size_t kMaxFiles = 35;
  std::map<fs::path, std::size_t> num_files;
  for (const char* root : {"graft", "tests", "bench", "include", "cmake"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / root)) {
      const fs::path relative = entry.path().lexically_relative(kRoot);
      const std::string name = relative.string();
      const bool is_data = name.starts_with("tests/fuzz/corpus/") ||
                           name.starts_with("tests/fixtures/") || name.starts_with("tests/golden/");
      if (entry.is_regular_file() && !is_data) ++num_files[relative.parent_path()];
    }
  }
  EXPECT_GT(num_files.size(), 40U);
  for (const auto& [folder, count] : num_files)
    EXPECT_LE(count, kMaxFiles) << folder;
}

// Includes of a public header that are neither of the standard library nor public headers.
std::vector<std::string> not_public(const std::set<std::string>& headers, const std::string& text) {
  static const std::regex include(R"re((?:^|\n)\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  static const std::regex standard(R"([a-z_]+)");
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it) {
    const std::string header = (*it)[2];
    const bool is_allowed =
        (*it)[1] == "<" ? std::regex_match(header, standard) : headers.contains(header);
    if (!is_allowed) found.push_back(header);
  }
  return found;
}

// include/graft is what gets installed: plain types, nothing of the folders behind them.
TEST(Repository, PublicHeadersIncludeOnlyStandardAndPublicHeaders) {
  std::set<std::string> headers = {"graft/version.h"};  // generated
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "include")) {
    if (entry.path().extension() == ".h")
      headers.insert(entry.path().lexically_relative(kRoot / "include").string());
  }
  EXPECT_EQ(headers, (std::set<std::string>{"graft/error.h", "graft/llm.h", "graft/plugin.h",
                                            "graft/plugin_params.h", "graft/sampling_params.h",
                                            "graft/version.h"}));
  for (const std::string& header : headers) {
    for (const std::string& used : not_public(headers, read_text(kRoot / "include" / header)))
      ADD_FAILURE() << "include/" << header << " may not include " << used;
  }
}

TEST(Repository, PublicHeaderCheckReportsInternalIncludes) {
  const std::string text =
      "#include <cstdint>\n#include \"graft/llm.h\"\n#include <nlohmann/json.hpp>\n"
      "# include \"graft/base/error.h\"\n#include <unistd.h>\n";
  EXPECT_EQ(not_public({"graft/llm.h"}, text),
            (std::vector<std::string>{"nlohmann/json.hpp", "graft/base/error.h", "unistd.h"}));
}

// The kernels of a CUDA source that may return, or end, before begin_kernel().
std::vector<std::string> kernels_that_do_not_wait(const std::string& text) {
  static const std::regex kernel(R"(__global__[^{;]*?(\w+_kernel)\s*\()");
  static const std::regex begins(R"(begin_kernel\(\)|\breturn\b|__global__)");
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), kernel), end; it != end; ++it) {
    std::smatch first;
    const std::string body = it->suffix();
    if (!std::regex_search(body, first, begins) || first[0] != "begin_kernel()")
      found.push_back((*it)[1]);
  }
  return found;
}

// launch() starts a kernel before the one in front of it has ended.
TEST(Repository, KernelsWaitForEarlierKernels) {
  std::size_t num_files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "graft")) {
    if (entry.path().extension() != ".cu" && entry.path().extension() != ".cuh") continue;
    ++num_files;
    for (const std::string& kernel : kernels_that_do_not_wait(read_text(entry.path())))
      ADD_FAILURE() << entry.path() << ": " << kernel << " does not call begin_kernel() first";
  }
  EXPECT_GT(num_files, 20U);
}

TEST(Repository, KernelCheckReportsMissingWaits) {
  const std::string text =
      "__global__ void __launch_bounds__(64) good_kernel(Job job) {\n  begin_kernel();\n  "
      "return;\n}\n"
      "__global__ void early_kernel(int n) {\n  if (n == 0) return;\n  begin_kernel();\n}\n"
      "__global__ void none_kernel() {\n}\n__global__ void last_kernel() {\n  begin_kernel();\n}";
  EXPECT_EQ(kernels_that_do_not_wait(text),
            (std::vector<std::string>{"early_kernel", "none_kernel"}));
}

// Paths in documents must exist.
TEST(Repository, DocumentsNameExistingPaths) {
  static const std::regex path(
      R"(`((?:graft|include|rules|models|web|tests|bench|examples|docs|tools|cmake)/[A-Za-z0-9_./-]+)`)");
  for (const char* document :
       {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/rules.md",
        "docs/howto/custom_operator.md", "docs/howto/embed.md"}) {
    const std::string text = read_text(kRoot / document);
    ASSERT_FALSE(text.empty()) << document;
    for (std::sregex_iterator it(text.begin(), text.end(), path), end; it != end; ++it)
      EXPECT_TRUE(fs::exists(kRoot / (*it)[1].str())) << document << " names " << (*it)[1];
  }
}

// Code blocks of docs/howto/x.md must be quotes from examples/x, which the build compiles.
TEST(Repository, HowtosQuoteTheirExamples) {
  static const std::regex block("```(?:cpp|cmake|yaml)\n([^`]+)```");
  std::size_t num_blocks = 0;
  for (const auto& howto : fs::directory_iterator(kRoot / "docs/howto")) {
    std::string example;
    for (const auto& file : fs::directory_iterator(kRoot / "examples" / howto.path().stem())) {
      if (file.is_regular_file()) example += read_text(file.path());
    }
    const std::string text = read_text(howto.path());
    for (std::sregex_iterator it(text.begin(), text.end(), block), end; it != end; ++it) {
      ++num_blocks;
      EXPECT_NE(example.find((*it)[1]), std::string::npos)
          << howto.path().filename() << " has a code block that is not in the example:\n"
          << (*it)[1];
    }
  }
  EXPECT_GT(num_blocks, 0U);
}

// A word or phrase of the project's old vocabulary. Lower case: found in any case, in prose and
// inside identifiers (the processor, OnTheProcessor, the_processor), also across a line break of a
// comment. With an upper-case letter or '_': found as a whole identifier, or as its start if it
// ends with '*'.
struct OldWord {
  std::string_view words;
  std::string_view instead;
};

constexpr std::array kOldWords = {
    OldWord{"whoever", "the caller, the owner or the component"},
    OldWord{"nobody", "no caller, unused or null"},
    OldWord{"somebody", "the caller or the component"},
    OldWord{"anybody", "any caller"},
    OldWord{"everybody", "all callers"},
    OldWord{"who is done", "idle threads"},
    OldWord{"who takes", "the caller"},
    OldWord{"so many", "the count, such as num_rows"},
    OldWord{"however many", "any number of"},
    OldWord{"no number", "NaN"},
    OldWord{"anew", "again"},
    OldWord{"at home", "local, on the same NUMA node"},
    OldWord{"company", "batch composition"},
    OldWord{"memory node", "NUMA node"},
    OldWord{"memory nodes", "NUMA nodes"},
    OldWord{"whole number", "integer"},
    OldWord{"whole numbers", "integers"},
    OldWord{"rounded to bytes", "quantized to int8"},
    OldWord{"give back", "free or return"},
    OldWord{"gives back", "frees or returns"},
    OldWord{"given back", "freed or returned"},
    OldWord{"gave back", "freed or returned"},
    OldWord{"giving back", "freeing or returning"},
    OldWord{"gives it back", "frees or returns it"},
    OldWord{"asked for", "requested"},
    OldWord{"takes note", "records"},
    OldWord{"shared out", "distributed"},
    OldWord{"shares out", "distributes"},
    OldWord{"seat", "slot"},
    OldWord{"seats", "slots"},
    OldWord{"by a hair", "nearly tied"},
    OldWord{"second-level cache", "L2 cache"},
    OldWord{"the processor", "the CPU or the host"},
    OldWord{"the processors", "the CPUs"},
    OldWord{"a processor", "a CPU"},
    OldWord{"any processor", "any CPU"},
    OldWord{"this processor", "this CPU"},
    OldWord{"each processor", "each CPU"},
    OldWord{"every processor", "every CPU"},
    OldWord{"per processor", "per CPU"},
    OldWord{"steady pass", "decode graph"},
    OldWord{"steady passes", "decode graphs"},
    OldWord{"recordings", "captured graphs"},
    OldWord{"kMost*", "kMax*"},
    OldWord{"kLeast*", "kMin*"},
    OldWord{"most_candidates", "max_top_k"},
    OldWord{"LikelyTokens", "TopK"},
    OldWord{"num_likely*", "required_top_k"},
    OldWord{"SteadyPass*", "DecodeGraphCache"},
    OldWord{"steady_num_sequences", "batch_bucket"},
    OldWord{"forward_recorded", "run_captured"},
    OldWord{"Recording", "CapturedGraph"},
    OldWord{"Meeting", "HostSignal"},
    OldWord{"forward_together", "forward_grouped"},
    OldWord{"forward_sum", "forward_add"},
    OldWord{"linear_few*", "gemv"},
    OldWord{"linear_many*", "gemm"},
    OldWord{"multiply_few*", "gemv"},
    OldWord{"multiply_many*", "gemm"},
    OldWord{"ready_heads", "qk_norm_rope_store"},
    OldWord{"RoundedRows", "QuantizedRows"},
    OldWord{"parallel_for_at_home", "parallel_for_local"},
    OldWord{"Awake", "SpinScope"},
    OldWord{"Crossing", "DeviceBridge"},
    OldWord{"seen_from", "for_caller_on"},
    OldWord{"share_out", "plan_splits"},
    OldWord{"attention_cores*", "attention_simt"},
    OldWord{"attention_few*", "attention_decode"},
    OldWord{"attention_latent*", "attention_mla"},
    OldWord{"take_memory", "allocate"},
    OldWord{"take_cached", "match_prefix"},
    OldWord{"make_known", "register_blocks"},
    OldWord{"forget_all", "invalidate_prefix_cache"},
    OldWord{"usable_processors", "usable_cpus"},
    OldWord{"TemporaryFolder", "TempDir"},
    OldWord{"own_folder", "executable_dir"},
    OldWord{"pause_briefly", "cpu_relax"},
    OldWord{"letters_of_bytes", "byte_level_encode"},
    OldWord{"HalfRows", "F16Rows"},
    OldWord{"SoftmaxRows", "SoftmaxState"},
    OldWord{"AnswerPart", "ResponseDelta"},
    OldWord{"generate_pass", "decode_pass"},
    OldWord{"kept_sequences", "unpadded_sequences"},
};

constexpr bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
constexpr bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
constexpr bool is_word_char(char c) {
  return is_lower(c) || is_upper(c) || (c >= '0' && c <= '9');
}
constexpr bool is_identifier_char(char c) {
  return is_word_char(c) || c == '_';
}

// The end of the word at `begin`; identifiers are split: kOnTheCpu is "k", "On", "The", "Cpu".
constexpr std::size_t word_end(std::string_view text, std::size_t begin) {
  std::size_t end = begin + 1;
  for (; end < text.size() && is_word_char(text[end]); ++end) {
    const bool ends_capitals = end + 1 < text.size() && is_lower(text[end + 1]);
    if (is_upper(text[end]) && (!is_upper(text[end - 1]) || ends_capitals)) break;
  }
  return end;
}

constexpr bool has_word_at(std::string_view text, std::size_t begin, std::string_view word) {
  if (begin >= text.size() || word_end(text, begin) - begin != word.size()) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = text[begin + i];
    if ((is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c) != word[i]) return false;
  }
  return true;
}

// Words of a phrase may be separated by spaces, hyphens, line breaks and comment marks.
constexpr bool has_phrase_at(std::string_view text, std::size_t at, std::string_view phrase) {
  while (true) {
    const std::size_t size = std::min(phrase.find_first_of(" -"), phrase.size());
    if (!has_word_at(text, at, phrase.substr(0, size))) return false;
    if (size == phrase.size()) return true;
    phrase.remove_prefix(size + 1);
    at += size;
    while (at < text.size() && std::string_view(" \t\n-/#*").find(text[at]) != text.npos)
      ++at;
  }
}

constexpr bool has_identifier_at(std::string_view text, std::size_t at, std::string_view name) {
  if (at > 0 && is_identifier_char(text[at - 1])) return false;
  const bool is_prefix = name.ends_with('*');
  if (is_prefix) name.remove_suffix(1);
  if (!text.substr(at).starts_with(name)) return false;
  const std::size_t end = at + name.size();
  return is_prefix || end == text.size() || !is_identifier_char(text[end]);
}

// Null: no old word begins at `at`, which is the start of a word.
constexpr const OldWord* old_word_at(std::string_view text, std::size_t at) {
  for (const OldWord& old : kOldWords) {
    const bool is_name =
        std::ranges::any_of(old.words, [](char c) { return is_upper(c) || c == '_' || c == '*'; });
    if (is_name ? has_identifier_at(text, at, old.words) : has_phrase_at(text, at, old.words))
      return &old;
  }
  return nullptr;
}

// One line per old word: "12: memory node: write NUMA node".
std::vector<std::string> old_words(std::string_view text) {
  std::vector<std::string> found;
  std::size_t line = 1;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\n') ++line;
    if (!is_word_char(text[at])) {
      ++at;
      continue;
    }
    if (const OldWord* old = old_word_at(text, at)) {
      found.push_back(std::to_string(line) + ": " + std::string(old->words) + ": write " +
                      std::string(old->instead));
    }
    at = word_end(text, at);
  }
  return found;
}

// Sources, tests, documents, rules, scripts and build files; not data or history.
bool is_checked(const fs::path& relative) {
  static const std::set<std::string> suffixes = {".h",   ".cpp",   ".cu",   ".cuh", ".in",
                                                 ".md",  ".cmake", ".yaml", ".py",  ".ts",
                                                 ".mjs", ".html",  ".css"};
  static const std::set<std::string> names = {
      "CMakeLists.txt", "CMakePresets.json", "dev", "run", "check", ".clang-tidy", ".clang-format"};
  static const std::set<fs::path> excluded = {"CHANGELOG.md", "docs/performance-log.md",
                                              "tests/repository/repository_test.cpp"};
  return !excluded.contains(relative) && (suffixes.contains(relative.extension().string()) ||
                                          names.contains(relative.filename().string()));
}

TEST(Repository, UsesTheFieldsWords) {
  GRAFT_SKIP_UNDER_SANITIZERS();
  static const std::set<fs::path> excluded = {
      ".git",         "build",    "models",          "tests/fuzz/corpus",
      "tests/golden", "web/dist", "web/node_modules"};
  std::size_t num_files = 0;
  for (fs::recursive_directory_iterator it(kRoot), end; it != end; ++it) {
    const fs::path relative = it->path().lexically_relative(kRoot);
    if (it->is_directory()) {
      if (excluded.contains(relative)) it.disable_recursion_pending();
      continue;
    }
    if (!is_checked(relative)) continue;
    ++num_files;
    for (const std::string& found : old_words(read_text(it->path())))
      ADD_FAILURE() << relative.string() << ":" << found;
  }
  EXPECT_GT(num_files, 500U);
}

TEST(Repository, VocabularyCheckFindsOldWords) {
  EXPECT_EQ(old_words("// Whoever reads it."),
            std::vector<std::string>{"1: whoever: write the caller, the owner or the component"});
  EXPECT_EQ(old_words("int a;\n// One per memory\n// node.\n"),
            std::vector<std::string>{"2: memory node: write NUMA node"});
  EXPECT_EQ(old_words("TEST(Linear, SameBitsInAnyCompany)"),
            std::vector<std::string>{"1: company: write batch composition"});
  EXPECT_EQ(old_words("kOnTheProcessor").size(), 1U);
  EXPECT_EQ(old_words("parallel_for_at_home(x)").size(), 1U);
  EXPECT_EQ(old_words("const int kMostRows = nobody_reads();").size(), 2U);
  EXPECT_EQ(old_words("linear_few_q8(Meeting& meeting)").size(), 2U);
}

TEST(Repository, VocabularyCheckIgnoresOtherWords) {
  for (const char* text :
       {"multiprocessor", "the post-processor of a tokenizer", "struct LogicalCpu;",
        "the meeting point", "so. Many", "accompany", "kMaxGemmRows", "almost", "a new block",
        "in memory. Node 3", "\"memory_nodes\": 2", "seen from the host", "companyless",
        "my_Meeting"})
    EXPECT_TRUE(old_words(text).empty()) << text << ": " << old_words(text).front();
}

}  // namespace
}  // namespace graft
