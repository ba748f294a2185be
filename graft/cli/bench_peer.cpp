#include "graft/cli/bench_peer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graft/base/error.h"
#include "graft/cli/spread.h"

namespace graft::cli {
namespace {

// A file without a name: a program can write any amount to it while nobody reads.
class Capture {
 public:
  Capture() : file_(std::tmpfile(), &std::fclose) {
    if (file_ == nullptr) fail("cannot make a temporary file: ", std::strerror(errno));
  }

  int descriptor() const { return ::fileno(file_.get()); }
  std::string text() const {
    std::rewind(file_.get());
    std::string text;
    std::array<char, 4096> part = {};
    for (std::size_t count = 0; (count = std::fread(part.data(), 1, part.size(), file_.get())) > 0;)
      text.append(part.data(), count);
    return text;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text.substr(text.rfind('\n') + 1);  // npos + 1 is 0
}

// Standard output of a program that ends well.
std::string output_of(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;  // posix_spawn takes them as not const
  std::vector<char*> argv;
  argv.reserve(copies.size() + 1);
  for (std::string& word : copies)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  const Capture out;
  const Capture err;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, out.descriptor(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err.descriptor(), STDERR_FILENO);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(words[0], ": cannot run: ", std::strerror(error));
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) fail(words[0], ": ended by signal ", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) {
    const std::string said = last_line(err.text());
    fail(words[0], ": failed with exit code ", WEXITSTATUS(status), said.empty() ? "" : ": ", said);
  }
  return out.text();
}

// "512,1024", each once; "0", which skips, when there is none.
std::string list_of(const std::vector<SpeedTest>& tests, std::int64_t SpeedTest::*count) {
  std::vector<std::int64_t> counts;
  for (const SpeedTest& test : tests) {
    if (test.*count > 0 && std::ranges::find(counts, test.*count) == counts.end())
      counts.push_back(test.*count);
  }
  return counts.empty() ? "0" : fmt::format("{}", fmt::join(counts, ","));
}

// Nothing for tests that mix prompts and answers.
std::optional<std::pair<std::string, double>> speed_of(const Json& row) {
  const SpeedTest test = {.num_prompt = row.at("n_prompt").get<std::int64_t>(),
                          .num_generated = row.at("n_gen").get<std::int64_t>()};
  if ((test.num_prompt > 0) == (test.num_generated > 0)) return std::nullopt;
  return std::pair{test.name(), row.at("avg_ts").get<double>()};
}

std::string peer_name(const std::string& program) {
  return std::filesystem::path(program).filename().string();
}

}  // namespace

std::map<std::string, double> parse_peer_output(std::string_view text, const std::string& where) {
  const std::string subject = where + ": its output is not that of llama-bench -o json";
  const Json json = parse_json(text, subject);
  if (!json.is_array()) fail(subject, ": not a list");
  std::map<std::string, double> speeds;
  try {
    for (const Json& row : json) {
      if (const auto speed = speed_of(row)) speeds.insert(*speed);
    }
  } catch (const Json::exception& error) {
    fail(subject, ": ", error.what());
  }
  return speeds;
}

std::map<std::string, double> Peer::run(const std::vector<SpeedTest>& tests) const {
  const std::string text =
      output_of({program, "-m", model, "-p", list_of(tests, &SpeedTest::num_prompt), "-n",
                 list_of(tests, &SpeedTest::num_generated), "-t", fmt::format("{}", threads), "-r",
                 "1", "-o", "json"});
  std::map<std::string, double> speeds = parse_peer_output(text, program);
  for (const SpeedTest& test : tests) {
    const auto found = speeds.find(test.name());
    if (found == speeds.end()) fail(program, ": says nothing of ", test.name());
    if (!std::isfinite(found->second) || found->second <= 0)
      fail(program, ": ", test.name(), " is ", found->second, " tokens/s");
  }
  return speeds;
}

std::string comparison_text(const BenchHeader& header,
                            const std::string& program,
                            const std::vector<PeerRow>& rows) {
  std::string text = header_text(header);
  text += fmt::format("| {:<8} | {:>18} | {:>18} | {:>24} |\n", "test", "graft, tokens/s",
                      peer_name(program), "ratio, median (min–max)");
  text += fmt::format("|{:-<10}|{:->19}:|{:->19}:|{:->25}:|\n", "", "", "", "");
  for (const PeerRow& row : rows) {
    const Spread ratio = spread_of(ratios(row.graft, row.peer));
    text +=
        fmt::format("| {:<8} | {:>18.2f} | {:>18.2f} | {:>24} |\n", row.test.name(),
                    spread_of(row.graft).median, spread_of(row.peer).median,
                    fmt::format("{:.2f} ({:.2f}–{:.2f})", ratio.median, ratio.least, ratio.most));
  }
  return text + fmt::format("\nMedians of {} rounds, both programs in turn.\n",
                            rows.empty() ? 0 : rows[0].graft.size());
}

Json comparison_json(const BenchHeader& header,
                     const std::string& program,
                     const std::vector<PeerRow>& rows) {
  Json json = header_json(header);
  json["peer"] = program;
  json["tests"] = Json::array();
  for (const PeerRow& row : rows) {
    const Spread ratio = spread_of(ratios(row.graft, row.peer));
    json["tests"].push_back(
        {{"test", row.test.name()},
         {"graft", row.graft},
         {"peer", row.peer},
         {"ratio", {{"median", ratio.median}, {"least", ratio.least}, {"most", ratio.most}}}});
  }
  return json;
}

}  // namespace graft::cli
