// Checks conventions of the repository: layers, and paths and quotes in documents.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

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
      if (word == "DEPS" || word == "LIBS") {
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

// Paths in documents must exist.
TEST(Repository, DocumentsNameExistingPaths) {
  static const std::regex path(
      R"(`((?:graft|include|rules|models|web|tests|bench|examples|docs|tools|cmake)/[A-Za-z0-9_./-]+)`)");
  for (const char* document : {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/rules.md",
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

}  // namespace
}  // namespace graft
