// graft_predict_bench FILE...: measures the machine as `graft machine` does, predicts the speed of
// each model as `graft plan` does, runs the model, and prints both with their ratio.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/parallel.h"
#include "graft/models/generate.h"
#include "graft/models/open_model.h"
#include "graft/perf/estimate.h"
#include "graft/perf/measure/measure.h"

namespace {

using graft::models::TokenIds;

constexpr std::int64_t kPromptTokens = 128;
constexpr std::int64_t kNewTokens = 16;

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TokenIds prompt_of(std::int64_t vocab_size, std::int64_t num_tokens) {
  TokenIds prompt;
  for (std::int64_t i = 0; i < num_tokens; ++i)
    prompt.push_back(static_cast<std::int32_t>((i * 7919 + 13) % vocab_size));
  return prompt;
}

struct Row {
  double predicted = 0;
  double measured = 0;

  double ratio() const { return predicted / measured; }
};

void print(const char* what, const Row& row, const std::string& limit) {
  std::printf("  %-9s predicted %8.2f  measured %8.2f tokens/s  ratio %.2f  (%s)\n", what,
              row.predicted, row.measured, row.ratio(), limit.c_str());
}

// Best of three runs, as in `graft machine`.
template <class Body>
double best_of_three(const Body& body) {
  return std::min({body(), body(), body()});
}

std::vector<double> compare(const std::filesystem::path& file,
                            const graft::perf::MachineFigures& machine) {
  graft::models::OpenModel open(file);
  graft::models::Model& model = open.model();
  const graft::perf::Workload load = {
      .context = kPromptTokens + kNewTokens / 2, .parallel = 1, .prefill_tokens = kPromptTokens};
  const graft::perf::Estimate estimate = graft::perf::estimate(open.plan(), machine, load);

  const TokenIds prompt = prompt_of(model.vocab_size(), kPromptTokens);
  const auto run = [&](std::int64_t num_tokens) {
    return best_of_three([&] {
      return seconds_of([&] { graft::models::generate_greedy(model, prompt, num_tokens); });
    });
  };
  run(1);  // warm-up: reads the file into memory
  const double prefill = run(1);
  const double decode = run(1 + kNewTokens) - prefill;
  const Row prefill_row{estimate.prefill.tokens_per_s, kPromptTokens / prefill};
  const Row decode_row{estimate.decode.tokens_per_s, kNewTokens / decode};
  std::printf("%s\n", file.filename().c_str());
  print("prefill", prefill_row, estimate.prefill.limit);
  print("decode", decode_row, estimate.decode.limit);
  return {prefill_row.ratio(), decode_row.ratio()};
}

void run_all(int argc, char** argv) {
  graft::ThreadPool pool;
  const graft::perf::MachineFigures machine = graft::perf::measure_machine(pool);
  std::printf("machine: %zu threads, read %.1f GB/s, %.0f GFLOP/s\n", pool.num_threads(),
              machine.cpu.read_bytes_per_s / 1e9, machine.cpu.flops / 1e9);
  std::vector<double> errors;
  for (int i = 1; i < argc; ++i) {
    for (const double ratio : compare(argv[i], machine))
      errors.push_back(std::abs(std::log(ratio)));
  }
  if (errors.empty()) return;
  std::ranges::sort(errors);
  std::printf("prediction error: median %.0f %%, max %.0f %%\n",
              100 * std::expm1(errors[errors.size() / 2]), 100 * std::expm1(errors.back()));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run_all(argc, argv);
  } catch (const graft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
