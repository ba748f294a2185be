// Runs every line of every ```sh block in the documents and checks every rule file of the gallery.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/shared_data.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = GRAFT_SOURCE_DIR;

struct Block {
  std::string kind;  // the text after the opening ```
  std::vector<std::string> lines;
};

std::vector<Block> blocks_of(const fs::path& page) {
  std::ifstream in(page);
  std::vector<Block> blocks;
  bool inside = false;
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) blocks.push_back({.kind = line.substr(3), .lines = {}});
    } else if (inside) {
      blocks.back().lines.push_back(line);
    }
  }
  return blocks;
}

std::vector<fs::path> pages() {
  std::vector<fs::path> found = {kSource / "README.md", kSource / "CONTRIBUTING.md"};
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kSource / "docs")) {
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

// An empty folder per page, `graft` in PATH, and a ./dev that forwards to graft, as the real one
// does when the program is built. Files that a line needs are made by an earlier line of its page.
class Documents : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kUnderSanitizers) GTEST_SKIP() << "takes minutes; covered by the release build";
    const fs::path& here = folder_.path();
    fs::create_directories(here / "bin");
    fs::create_symlink(GRAFT_PROGRAM, here / "bin/graft");
  }

  // The folder in which the lines of a page run.
  fs::path folder_of(const fs::path& page) {
    const fs::path folder = folder_.path() / page.stem();
    if (fs::create_directory(folder)) {
      write(folder / "dev", "#!/bin/sh\nexec graft \"$@\"\n");
      fs::permissions(folder / "dev", fs::perms::owner_all);
    }
    return folder;
  }

  Outcome run_line(const fs::path& page, const std::string& line) {
    const std::string here = folder_.path().string();
    // `head` ends `yes` with SIGPIPE, as it should.
    const std::string pipes = line.starts_with("yes ") ? "" : "set -o pipefail; ";
    return run_command(
        {"/bin/bash", "-c", pipes + "cd '" + folder_of(page).string() + "'; " + line},
        {.environment = {"PATH=" + here + "/bin:/usr/bin:/bin", "HOME=" + here,
                         "GRAFT_CONFIG=/dev/null"}});
  }

  TempDir folder_;
};

// Commands of ./dev that build or test, which are not run here.
bool is_dev_command(const std::string& line) {
  std::istringstream words(line);
  std::string program;
  std::string command;
  words >> program >> command;
  return program == "./dev" &&
         std::set<std::string>{"build", "test", "check", "bench", "format", "package"}.contains(
             command);
}

bool is_server(const std::string& line) {
  return line.starts_with("graft serve");
}

// Runs the server on a free port for 10 seconds; SIGTERM must end it with exit code 0.
std::string with_timeout(const std::string& line) {
  return "timeout --preserve-status -s TERM 10 " + line.substr(0, line.find('#')) + " --port 0";
}

TEST_F(Documents, EveryCommandWorks) {
  int num_run = 0;
  // They mostly wait, so they run beside the other commands.
  std::vector<std::future<void>> servers;
  for (const fs::path& page : pages()) {
    folder_of(page);  // made before servers of the page run on other threads
    for (const Block& block : blocks_of(page)) {
      // Commands must be in blocks that this test runs.
      for (const std::string& line : block.lines) {
        EXPECT_TRUE(block.kind == "sh" || !line.starts_with("graft ")) << page << ": " << line;
      }
      if (block.kind != "sh") continue;
      for (const std::string& line : block.lines) {
        if (line.empty() || is_dev_command(line)) continue;
        const auto run = [this, page, line] {
          const Outcome outcome = run_line(page, is_server(line) ? with_timeout(line) : line);
          EXPECT_EQ(outcome.exit_code, 0) << page << ": " << line << "\n" << outcome.err;
        };
        if (is_server(line)) {
          servers.push_back(std::async(std::launch::async, run));
        } else {
          run();
        }
        ++num_run;
      }
    }
  }
  for (std::future<void>& server : servers)
    server.get();
  EXPECT_GT(num_run, 30);
}

TEST_F(Documents, GalleryRulesHaveNoFindings) {
  int num_files = 0;
  for (const Block& block : blocks_of(kSource / "docs/rules.md")) {
    if (block.kind != "yaml whole file") continue;
    std::string rules;
    for (const std::string& line : block.lines)
      rules += line + "\n";
    write(folder_of("rules") / "gallery.yaml", rules);
    const Outcome outcome =
        run_line("rules", "graft rules check gallery.yaml -m DeepSeek-V3 --gpus 2");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << rules;
    EXPECT_EQ(outcome.out.find("warning"), std::string::npos) << outcome.out << rules;
    ++num_files;
  }
  EXPECT_GE(num_files, 5);
}

}  // namespace
}  // namespace graft::tests
