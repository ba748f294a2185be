#include "graft/cli/bench/bench_sessions.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/cli/bench/bench_workload.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/options/tier_options.h"

namespace graft::cli {
namespace {

struct SessionsOptions {
  ModelOptions model;
  std::int64_t users = 64;
  std::int64_t turns = 10;
  std::int64_t input_len = 64;
  std::int64_t output_len = 16;
  std::int64_t parallel = 4;
  double oversubscription = 4;
  TierOptions tiers;
  bool json = false;

  // Tokens of a conversation after its last turn.
  std::int64_t session_len() const { return turns * (input_len + output_len); }
};

constexpr std::int64_t kSessionBlock = 16;  // tokens of a KV block

struct SessionsResult {
  std::string tier;
  double seconds = 0;
  std::int64_t num_prompt = 0;
  std::int64_t num_cached = 0;
  std::int64_t num_output = 0;
  std::vector<double> ttft = {};  // of every turn but the first, ascending

  double output_rate() const { return static_cast<double>(num_output) / seconds; }
  double cached_share() const {
    return static_cast<double>(num_cached) / static_cast<double>(num_prompt);
  }
  double ttft_at(double share) const {
    if (ttft.empty()) return 0;
    const auto last = static_cast<double>(ttft.size() - 1);
    return ttft[static_cast<std::size_t>(std::lround(share * last))];
  }
};

// A folder that only this run uses: blocks of an earlier run would be found again.
class RunFolder {
 public:
  explicit RunFolder(const std::filesystem::path& parent)
      : path_(parent / fmt::format("bench-{}", ::getpid())) {}
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

api::EngineConfig sessions_engine(const SessionsOptions& options) {
  api::EngineConfig config;
  config.max_num_seqs = options.parallel;
  config.max_model_len = options.session_len() + 1;
  config.kvcache_block_size = kSessionBlock;
  const std::int64_t per_session = options.session_len() / kSessionBlock + 2;
  const auto wanted = static_cast<double>(options.users * per_session) / options.oversubscription;
  config.num_kvcache_blocks =
      std::max(options.parallel * per_session, static_cast<std::int64_t>(wanted));
  return config;
}

// One turn of the users [first, end): their new messages are sent at once.
void run_turn(api::LLM& llm,
              const SessionsOptions& options,
              Workload& workload,
              std::vector<Tokens>& sessions,
              std::size_t first,
              std::size_t end,
              SessionsResult& result) {
  std::vector<api::Prompt> prompts;
  const bool is_first_turn = sessions[first].empty();
  for (std::size_t user = first; user < end; ++user) {
    const Tokens message = workload.tokens(options.input_len);
    sessions[user].insert(sessions[user].end(), message.begin(), message.end());
    prompts.emplace_back(sessions[user]);
  }
  const auto outputs = llm.generate(prompts, generate_exactly(options.output_len));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const api::Sample& sample = outputs[i].samples[0];
    Tokens& session = sessions[first + i];
    session.insert(session.end(), sample.tokens.begin(), sample.tokens.end());
    result.num_prompt += outputs[i].num_prompt;
    result.num_cached += outputs[i].num_cached;
    result.num_output += static_cast<std::int64_t>(sample.tokens.size());
    if (!is_first_turn) result.ttft.push_back(sample.timings.first_token_seconds);
  }
}

SessionsResult run_sessions(const SessionsOptions& options,
                            std::string tier,
                            const api::EngineConfig& engine) {
  api::LlmConfig config = options.model.config();
  config.engine = engine;
  const auto llm = options.model.open(config);
  Workload workload(*llm);
  llm->generate({Tokens{1, 2, 3}}, generate_exactly(2));  // warm-up
  std::vector<Tokens> sessions(static_cast<std::size_t>(options.users));
  SessionsResult result = {.tier = std::move(tier)};
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t turn = 0; turn < options.turns; ++turn) {
    for (std::size_t first = 0; first < sessions.size();) {
      const std::size_t end =
          std::min(sessions.size(), first + static_cast<std::size_t>(options.parallel));
      run_turn(*llm, options, workload, sessions, first, end, result);
      first = end;
    }
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::ranges::sort(result.ttft);
  return result;
}

// Without tiers, then with each tier that the options give a size.
std::vector<SessionsResult> run_all(const SessionsOptions& options) {
  api::EngineConfig tiers;
  options.tiers.apply_to(tiers);
  std::vector<SessionsResult> results;
  results.push_back(run_sessions(options, "none", sessions_engine(options)));
  if (tiers.kv_host_bytes > 0) {
    api::EngineConfig engine = sessions_engine(options);
    engine.kv_host_bytes = tiers.kv_host_bytes;
    results.push_back(run_sessions(options, "host", engine));
  }
  if (tiers.kv_disk_bytes > 0) {
    const RunFolder folder(tiers.kv_dir);
    api::EngineConfig engine = sessions_engine(options);
    engine.kv_disk_bytes = tiers.kv_disk_bytes;
    engine.kv_dir = folder.path();
    results.push_back(run_sessions(options, "disk", engine));
  }
  return results;
}

Json sessions_json(const SessionsOptions& options, const std::vector<SessionsResult>& results) {
  Json rows = Json::array();
  for (const SessionsResult& result : results) {
    rows.push_back({{"tier", result.tier},
                    {"seconds", result.seconds},
                    {"output_tokens_per_s", result.output_rate()},
                    {"prompt_tokens", result.num_prompt},
                    {"cached_tokens", result.num_cached},
                    {"ttft_p50", result.ttft_at(0.5)},
                    {"ttft_p99", result.ttft_at(0.99)}});
  }
  return {{"users", options.users},
          {"turns", options.turns},
          {"kv_blocks", sessions_engine(options).num_kvcache_blocks},
          {"results", rows}};
}

void bench_sessions(const SessionsOptions& options) {
  const std::vector<SessionsResult> results = run_all(options);
  if (options.json) {
    fmt::print("{}\n", sessions_json(options, results).dump(2));
    return;
  }
  fmt::print("{} users, {} turns of {} + {} tokens, {} at a time, KV cache of {} tokens\n",
             options.users, options.turns, options.input_len, options.output_len, options.parallel,
             sessions_engine(options).num_kvcache_blocks * kSessionBlock);
  fmt::print("{:<6} {:>9} {:>13} {:>9} {:>11} {:>11}\n", "tier", "seconds", "output tok/s",
             "cached %", "TTFT p50 s", "TTFT p99 s");
  for (const SessionsResult& result : results) {
    fmt::print("{:<6} {:>9.2f} {:>13.1f} {:>9.1f} {:>11.4f} {:>11.4f}\n", result.tier,
               result.seconds, result.output_rate(), 100 * result.cached_share(),
               result.ttft_at(0.5), result.ttft_at(0.99));
  }
}

}  // namespace

void add_sessions_bench(Command& bench) {
  auto options = std::make_shared<SessionsOptions>();
  Command* command = bench.add_subcommand(
      "sessions", "Measure conversations of many users with a KV cache that is too small for them");
  options->model.add_to(*command);
  const auto count = Range(std::int64_t{1}, std::int64_t{1} << 16);
  command->add_option("--users", options->users, "Number of users (default: 64)")->check(count);
  command->add_option("--turns", options->turns, "Turns of each user (default: 10)")->check(count);
  command->add_option("--input-len", options->input_len, "Tokens of a message (default: 64)")
      ->check(count);
  command->add_option("--output-len", options->output_len, "Tokens of an answer (default: 16)")
      ->check(count);
  command->add_option("--parallel", options->parallel, "Users answered at a time (default: 4)")
      ->check(Range(1, 4096));
  command
      ->add_option("--oversubscription", options->oversubscription,
                   "Tokens of all conversations divided by those of the KV cache (default: 4)")
      ->check(Range(1.0, 1e6));
  options->tiers.add_to(*command);
  command->add_flag("--json", options->json, "Print the results as JSON");
  command->callback([options] { bench_sessions(*options); });
}

}  // namespace graft::cli
