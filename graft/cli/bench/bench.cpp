// graft bench: prefill and decode speed as llama-bench measures them, relative to the measured
// limits of this machine and optionally to llama-bench itself. Engine benchmarks are in
// bench_engine.cpp.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "graft/base/parallel.h"
#include "graft/base/system/cpus.h"
#include "graft/base/system/system.h"
#include "graft/base/text/units.h"
#include "graft/cli/bench/bench_engine.h"
#include "graft/cli/bench/bench_lora.h"
#include "graft/cli/bench/bench_peer.h"
#include "graft/cli/bench/bench_serve.h"
#include "graft/cli/bench/bench_sessions.h"
#include "graft/cli/bench/bench_speculate.h"
#include "graft/cli/bench/bench_speed.h"
#include "graft/cli/bench/bench_structured.h"
#include "graft/cli/bench/bench_table.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/parts.h"
#include "graft/kernels/cpu/table.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/perf/estimate.h"
#include "graft/perf/gpus.h"
#include "graft/perf/limits.h"
#include "graft/perf/machine.h"
#include "graft/tensor/gpus.h"

namespace graft::cli {
namespace {

struct BenchOptions {
  ModelOptions model;
  SpeedTestLists lists;
  std::int64_t rounds = 3;
  std::vector<std::string> against;
  BenchSpeculateOptions speculate;
  bool profile = false;
  bool json = false;
};

// Runs on a separate thread: ThreadPool pins the calling thread, and threads started by it later
// would inherit the pinning.
void measure_limits(const ModelOptions& options, BenchHeader& header) {
  const auto measure = [&] {
    const std::vector<int> cpus =
        options.cpu_list.empty() ? std::vector<int>() : parse_cpu_list(options.cpu_list);
    ThreadPool pool(options.threads, cpus);
    header.threads = pool.num_threads();
    header.limits = perf::measure_limits(pool);
  };
  std::async(std::launch::async, measure).get();
}

BenchHeader header_of(const ModelOptions& options) {
  const auto source = models::open_checkpoint(options.model.path());
  const plan::Blueprint blueprint = models::make_blueprint(*source);
  std::uint64_t bytes = 0;
  std::int64_t parameters = 0;
  for (const formats::TensorInfo& tensor : source->tensors()) {
    bytes += tensor.data.size();
    if (part_of(source->config(), tensor.name) != Part::Scales) parameters += tensor.num_elems();
  }
  BenchHeader header = {.model = blueprint.model_name,
                        .bytes = bytes,
                        .type = type_text(*source),
                        .parameters = parameters,
                        .parameters_per_token = models::num_parameters_per_token(blueprint),
                        .isa = std::string(kernels::cpu::kernels().isa)};
  measure_limits(options, header);
  return header;
}

bool runs_on_cpu(const plan::Plan& plan) {
  return std::ranges::all_of(plan.placements, [](const plan::Placement& placement) {
    return placement.decode.device() == kCpu && placement.prefill.device() == kCpu;
  });
}

perf::Work work_of(const SpeedTest& test, const plan::Plan& plan) {
  if (test.num_prompt > 0) return pass_work(plan, perf::prefill_pass(test.num_prompt));
  // The context grows from one token; half of the generated tokens on average.
  return pass_work(
      plan, perf::decode_pass(test.num_sequences, 1 + static_cast<double>(test.num_generated) / 2));
}

// The estimate of `graft plan`, if `graft machine` has measured this machine.
double predicted_speed(const SpeedTest& test, const plan::Plan& plan, std::size_t threads) {
  static const bool is_measured = std::filesystem::exists(perf::machine_file());
  perf::MachineFigures machine = perf::this_machine();
  if (!is_measured || machine.cpu.threads != static_cast<int>(threads)) return 0;
  perf::set_found_gpus(machine, list_gpus());
  const perf::Workload load = {.context = 1 + test.num_generated / 2,
                               .parallel = test.num_sequences,
                               .prefill_tokens = std::max<std::int64_t>(test.num_prompt, 1)};
  const perf::Estimate estimate = perf::estimate(plan, machine, load);
  return test.num_prompt > 0 ? estimate.prefill.tokens_per_s : estimate.decode.tokens_per_s;
}

SpeedRow row_of(const SpeedTest& test, const plan::Plan& plan, std::size_t threads) {
  SpeedRow row = {.test = test, .predicted = predicted_speed(test, plan, threads)};
  if (runs_on_cpu(plan)) row.work = work_of(test, plan);
  return row;
}

// Called before the benchmark adds to the load and before threads are pinned.
std::vector<std::string> notes_on_load() {
  const auto num_cpus = static_cast<double>(usable_cpus().size());
  const double load = load_average();
  if (load <= kBusyLoad * num_cpus) return {};
  return {fmt::format(
      "The load average was {:.1f} on {:.0f} logical CPUs: other programs lower these results.",
      load, num_cpus)};
}

void add_notes(SpeedReport& report, const plan::Plan& plan, const BenchOptions& options) {
  const auto cache = static_cast<double>(std::max(::sysconf(_SC_LEVEL3_CACHE_SIZE), 0L));
  bool in_cache = false;
  bool assumes_random_experts = false;
  for (const SpeedRow& row : report.rows) {
    if (!row.work || row.test.num_prompt > 0) continue;
    in_cache |= row.work->bytes() < cache;
    assumes_random_experts |= row.test.num_sequences > 1 && plan.blueprint->expert_share < 1;
  }
  if (in_cache) {
    report.notes.push_back(fmt::format(
        "The bytes read per token fit into the L3 cache of {}: more than 100 % of the bandwidth is "
        "possible.",
        bytes_text(static_cast<std::uint64_t>(cache))));
  }
  if (assumes_random_experts)
    report.notes.emplace_back("Bytes of a batch assume that sequences select experts at random.");
  if (!runs_on_cpu(plan))
    report.notes.emplace_back("Part of the model runs on a GPU: CPU limits are not compared.");
  if (options.profile && !runs_on_cpu(plan))
    report.notes.emplace_back("--profile runs without CUDA graphs and is slower.");
}

SpeedReport measure(const BenchOptions& options, const std::vector<SpeedTest>& tests) {
  SpeedReport report;
  report.notes = notes_on_load();
  report.header = header_of(options.model);
  SpeedRunner runner(options.model, tests, options.profile);
  for (const SpeedTest& test : tests) {
    SpeedRow row = row_of(test, runner.plan(), report.header.threads);
    runner.warm_up(test);
    const ModuleProfile before = runner.profile();
    for (std::int64_t round = 0; round < options.rounds; ++round)
      row.tokens_per_s.push_back(runner.run(test));
    row.modules = module_times(before, runner.profile());
    report.rows.push_back(std::move(row));
  }
  add_notes(report, runner.plan(), options);
  return report;
}

std::vector<PeerRow> compare(const BenchOptions& options,
                             std::size_t threads,
                             const std::vector<Peer>& peers) {
  const std::vector<SpeedTest> tests = options.lists.tests();
  SpeedRunner runner(options.model, tests);
  std::vector<PeerRow> rows;
  rows.reserve(tests.size());
  for (const SpeedTest& test : tests) {
    rows.push_back({.graft = row_of(test, runner.plan(), threads),
                    .peers = {peers.size(), std::vector<double>()}});
  }
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < peers.size(); ++i) {
      const PeerSpeeds speeds = peers[i].run(options.model.model.path().string(), threads, tests);
      for (PeerRow& row : rows)
        row.peers[i].push_back(speeds.at(row.graft.test));
    }
    for (PeerRow& row : rows) {
      runner.warm_up(row.graft.test);
      row.graft.tokens_per_s.push_back(runner.run(row.graft.test));
    }
  }
  return rows;
}

void print(const Json& json) {
  // Model names may be invalid UTF-8; invalid bytes are replaced.
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void run_against(const BenchOptions& options) {
  std::vector<Peer> peers;
  std::ranges::transform(options.against, std::back_inserter(peers), Peer::parse);
  const std::vector<std::string> notes = notes_on_load();
  const BenchHeader header = header_of(options.model);
  const std::vector<PeerRow> rows = compare(options, header.threads, peers);
  if (options.json) {
    Json json = comparison_json(header, peers, rows);
    json["notes"] = notes;
    print(json);
  } else {
    fmt::print("{}", comparison_text(header, peers, rows));
    for (const std::string& note : notes)
      fmt::print("{}\n", note);
  }
}

void run_bench(BenchOptions& options) {
  if (!options.speculate.speculate.text.empty()) {
    options.speculate.generated = options.lists.generated;
    options.speculate.batch_sizes = options.lists.batch_sizes;
    options.speculate.rounds = options.rounds;
    options.speculate.json = options.json;
    bench_speculate(options.model, options.speculate);
    return;
  }
  if (!options.against.empty()) {
    run_against(options);
    return;
  }
  const SpeedReport report = measure(options, options.lists.tests());
  if (options.json) {
    print(report_json(report));
  } else {
    fmt::print("{}", table_text(report));
  }
}

Option* add_list(Command& bench,
                 const std::string& flag,
                 std::vector<std::int64_t>& list,
                 const std::string& what) {
  return bench.add_option(flag, list, what)
      ->delimiter(',')
      ->check(Range(std::int64_t{0}, std::int64_t{1} << 24));
}

}  // namespace

void add_bench(Command& app) {
  auto options = std::make_shared<BenchOptions>();
  Command* bench = app.add_subcommand(
      "bench", "Measure prefill and decode speed, relative to the limits of this machine");
  bench->require_subcommand(0, 1);
  bench->footer(
      "Examples:\n"
      "  graft bench -m model.gguf -p 512 -n 128 -b 1,8\n"
      "  graft bench -m model.gguf --against llama.cpp/build/bin/llama-bench");
  options->model.add_to(*bench);
  add_list(*bench, "-p,--n-prompt", options->lists.prompts,
           "Prompt lengths in tokens (default: 512; 0 skips)");
  add_list(*bench, "-n,--n-gen", options->lists.generated,
           "Numbers of tokens to generate (default: 128; 0 skips)");
  const Option* batch_sizes = add_list(*bench, "-b,--batch-sizes", options->lists.batch_sizes,
                                       "Decode batch sizes (default: 1,8,32; with --against: 1)");
  bench->add_option("-r,--rounds", options->rounds, "Repetitions of each test (default: 3)")
      ->check(Range(1, 1000));
  bench->add_option("--against", options->against,
                    "Compare with a llama-bench, given as PROGRAM or NAME=PROGRAM; batch sizes "
                    "above 1 use the llama-batched-bench in the same folder");
  bench
      ->add_option("--speculate", options->speculate.speculate.text,
                   "Compare decoding with and without speculation: auto or ngram[:N,K], as in "
                   "`graft serve`; by default at batch size 1")
      ->option_text("auto|ngram[:N,K]")
      ->excludes("--against");
  bench
      ->add_option("--speculate-prompt", options->speculate.prompt_file,
                   "Text that --speculate continues (default: a source file and its beginning)")
      ->option_text("FILE");
  bench->add_flag("--profile", options->profile, "Print the time per module")
      ->excludes("--against");
  bench->add_flag("--json", options->json, "Print JSON");
  add_engine_benches(*bench);
  add_structured_bench(*bench);
  add_lora_bench(*bench);
  add_sessions_bench(*bench);
  add_serve_bench(*bench);
  bench->callback([options, bench, batch_sizes] {
    if (bench->has_parsed_subcommand()) return;
    // llama-bench runs batch size 1 only; llama-batched-bench is used only when -b is given.
    const bool is_compared =
        !options->against.empty() || !options->speculate.speculate.text.empty();
    if (is_compared && batch_sizes->count() == 0) options->lists.batch_sizes = {1};
    run_bench(*options);
  });
}

}  // namespace graft::cli
