#include "graft/cli/bench/bench_peer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graft/base/error.h"
#include "graft/cli/bench/spread.h"

namespace graft::cli {
namespace {

// An anonymous temporary file: unlike a pipe, a program can fill it without a concurrent reader.
class Capture {
 public:
  Capture() : file_(std::tmpfile(), &std::fclose) {
    if (file_ == nullptr) fail("cannot create a temporary file: ", std::strerror(errno));
  }

  int descriptor() const { return ::fileno(file_.get()); }
  std::string text() const {
    std::rewind(file_.get());
    std::string text;
    std::array<char, 4096> chunk = {};
    for (std::size_t count = 0;
         (count = std::fread(chunk.data(), 1, chunk.size(), file_.get())) > 0;)
      text.append(chunk.data(), count);
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

struct ProgramOutput {
  std::string out;  // standard output
  std::string all;  // standard output, then standard error
};

// Runs a program to its end. Throws Error when it fails.
ProgramOutput output_of(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;  // posix_spawn wants mutable strings
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
  if (error != 0) fail(words[0], ": cannot start: ", std::strerror(error));
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) fail(words[0], ": killed by signal ", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) {
    const std::string message = last_line(err.text());
    fail(words[0], ": failed with exit code ", WEXITSTATUS(status), message.empty() ? "" : ": ",
         message);
  }
  std::string text = out.text();
  return {.out = text, .all = text + err.text()};
}

// The distinct values as "512,1024"; "0" (skip) when there are none.
std::string list_of(const std::vector<SpeedTest>& tests, std::int64_t SpeedTest::*count) {
  std::vector<std::int64_t> counts;
  for (const SpeedTest& test : tests) {
    if (test.*count > 0 && std::ranges::find(counts, test.*count) == counts.end())
      counts.push_back(test.*count);
  }
  return counts.empty() ? "0" : fmt::format("{}", fmt::join(counts, ","));
}

// Nothing for tests that mix prefill and decode.
std::optional<std::pair<SpeedTest, double>> speed_of(const Json& row) {
  const SpeedTest test = {.num_prompt = row.at("n_prompt").get<std::int64_t>(),
                          .num_generated = row.at("n_gen").get<std::int64_t>()};
  if ((test.num_prompt > 0) == (test.num_generated > 0)) return std::nullopt;
  return std::pair{test, row.at("avg_ts").get<double>()};
}

bool is_single(const SpeedTest& test) {
  return test.num_sequences == 1;
}

// The cells of "| 1 | 32 | 8 | ..." as numbers; empty when a cell is not a valid count or time.
std::vector<double> numbers_of_row(std::string_view line) {
  constexpr double kMax = 1e12;
  std::vector<double> numbers;
  if (!line.starts_with('|')) return {};
  line.remove_prefix(1);
  while (!line.empty()) {
    const std::string cell(line.substr(0, line.find('|')));
    line.remove_prefix(std::min(line.size(), cell.size() + 1));
    char* end = nullptr;
    const double number = std::strtod(cell.c_str(), &end);
    if (end == cell.c_str() || *end != ' ' || !(number >= 0 && number < kMax)) return {};
    numbers.push_back(number);
  }
  return numbers;
}

std::string batched_program(const std::string& program) {
  return std::filesystem::path(program).replace_filename("llama-batched-bench").string();
}

// KV cache size for the largest batch of a 1-token prompt and the generated tokens, rounded up to
// 256 per sequence.
std::int64_t batched_context(const std::vector<SpeedTest>& tests) {
  constexpr std::int64_t kRounding = 256;
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  for (const SpeedTest& test : tests) {
    sequences = std::max(sequences, test.num_sequences);
    tokens = std::max(tokens, 1 + test.num_generated);
  }
  return sequences * ((tokens + kRounding - 1) / kRounding * kRounding);
}

Json ratio_json(const Spread& ratio) {
  return {{"median", ratio.median}, {"least", ratio.min}, {"most", ratio.max}};
}

}  // namespace

Peer Peer::parse(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals != std::string::npos && equals > 0 && text.find('/') > equals)
    return {.name = text.substr(0, equals), .program = text.substr(equals + 1)};
  return {.name = std::filesystem::path(text).filename().string(), .program = text};
}

PeerSpeeds parse_peer_output(std::string_view text, const std::string& where) {
  const std::string subject = where + ": unexpected output, expected that of llama-bench -o json";
  const Json json = parse_json(text, subject);
  if (!json.is_array()) fail(subject, ": not a list");
  PeerSpeeds speeds;
  try {
    for (const Json& row : json) {
      if (const auto speed = speed_of(row)) speeds.insert(*speed);
    }
  } catch (const Json::exception& error) {
    fail(subject, ": ", error.what());
  }
  return speeds;
}

PeerSpeeds parse_batched_output(std::string_view text) {
  enum Column : std::uint8_t {
    Prompt,
    Generated,
    Sequences,
    Cache,
    PromptS,
    PromptSpeed,
    S,
    Speed
  };
  PeerSpeeds speeds;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::vector<double> numbers = numbers_of_row(line);
    if (numbers.size() <= Speed) continue;
    speeds[{.num_generated = static_cast<std::int64_t>(numbers[Generated]),
            .num_sequences = static_cast<std::int64_t>(numbers[Sequences])}] = numbers[Speed];
  }
  return speeds;
}

PeerSpeeds Peer::run(const std::string& model,
                     std::size_t threads,
                     const std::vector<SpeedTest>& tests) const {
  const std::string num_threads = fmt::format("{}", threads);
  std::vector<SpeedTest> single;
  std::vector<SpeedTest> batched;
  std::ranges::copy_if(tests, std::back_inserter(single), is_single);
  std::ranges::remove_copy_if(tests, std::back_inserter(batched), is_single);
  PeerSpeeds speeds;
  if (!single.empty()) {
    const ProgramOutput output = output_of(
        {program, "-m", model, "-p", list_of(single, &SpeedTest::num_prompt), "-n",
         list_of(single, &SpeedTest::num_generated), "-t", num_threads, "-r", "1", "-o", "json"});
    speeds = parse_peer_output(output.out, program);
  }
  if (!batched.empty()) {
    const ProgramOutput output = output_of(
        {batched_program(program), "-m", model, "-c", fmt::format("{}", batched_context(batched)),
         "-npp", "1", "-ntg", list_of(batched, &SpeedTest::num_generated), "-npl",
         list_of(batched, &SpeedTest::num_sequences), "-t", num_threads});
    speeds.merge(parse_batched_output(output.all));
  }
  for (const SpeedTest& test : tests) {
    const auto found = speeds.find(test);
    const std::string& subject = is_single(test) ? program : batched_program(program);
    if (found == speeds.end())
      fail(subject, ": no result for ", test.name(), " with batch size ", test.num_sequences);
    if (!std::isfinite(found->second) || found->second <= 0)
      fail(subject, ": invalid result for ", test.name(), ": ", found->second, " tok/s");
  }
  return speeds;
}

std::string comparison_text(const BenchHeader& header,
                            const std::vector<Peer>& peers,
                            const std::vector<PeerRow>& rows) {
  std::string titles = fmt::format("| {:<8} | {:>5} | {:>12} | {:>14} |", "test", "batch",
                                   "graft tok/s", "% of bandwidth");
  std::string rule = fmt::format("|{:-<10}|{:->6}:|{:->13}:|{:->15}:|", "", "", "", "");
  for (const Peer& peer : peers) {
    titles += fmt::format(" {:>17} | {:>24} |", peer.name + " tok/s", "ratio, median (min–max)");
    rule += fmt::format("{:->18}:|{:->25}:|", "", "");
  }
  std::string text = header_text(header) + titles + '\n' + rule + '\n';
  for (const PeerRow& row : rows) {
    const SpeedTest& test = row.graft.test;
    text += fmt::format("| {:<8} | {:>5} | {:>12.2f} | {:>14} |", test.name(), test.num_sequences,
                        spread_of(row.graft.tokens_per_s).median,
                        percent_text(row.graft.bytes_per_s(), header.limits.read_bytes_per_s));
    for (const std::vector<double>& speeds : row.peers) {
      const Spread ratio = spread_of(ratios(row.graft.tokens_per_s, speeds));
      text +=
          fmt::format(" {:>17.2f} | {:>24} |", spread_of(speeds).median,
                      fmt::format("{:.2f} ({:.2f}–{:.2f})", ratio.median, ratio.min, ratio.max));
    }
    text += '\n';
  }
  return text + fmt::format("\nMedians of {} rounds; the programs run alternately.\n",
                            rows.empty() ? 0 : rows[0].graft.tokens_per_s.size());
}

Json comparison_json(const BenchHeader& header,
                     const std::vector<Peer>& peers,
                     const std::vector<PeerRow>& rows) {
  Json json = header_json(header);
  json["peers"] = Json::array();
  for (const Peer& peer : peers)
    json["peers"].push_back({{"name", peer.name}, {"program", peer.program}});
  json["tests"] = Json::array();
  for (const PeerRow& row : rows) {
    Json test = row_json(row.graft, header.limits);
    test["peers"] = Json::array();
    for (const std::vector<double>& speeds : row.peers) {
      const Spread ratio = spread_of(ratios(row.graft.tokens_per_s, speeds));
      test["peers"].push_back({{"tokens_per_s", speeds}, {"ratio", ratio_json(ratio)}});
    }
    json["tests"].push_back(std::move(test));
  }
  return json;
}

}  // namespace graft::cli
