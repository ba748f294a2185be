// Steps of a model whose layers all have a window of 64 tokens: the device computes the same at
// every context, so what grows with the context is the time of the host.

#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "graft/engine/engine.h"
#include "graft/testing/windowed_model.h"

namespace graft::engine {
namespace {

constexpr std::int64_t kMaxContext = 140'000;
constexpr std::int64_t kBenchWindow = 64;

void run_long_context(benchmark::State& state, double repetition_penalty) {
  const std::int64_t context = state.range(0);
  const WindowedModel model(kBenchWindow, kMaxContext);
  models::OpenModel open(model.path());
  EngineConfig config;
  config.num_kvcache_blocks = 10'000;
  config.max_num_seqs = 1;
  Engine engine(open, nullptr, config);
  Request request;
  for (std::int64_t i = 0; i < context; ++i)
    request.prompt.push_back(static_cast<TokenId>((i * i + 7 * i) % 300));
  request.params.ignore_eos = true;
  request.params.repetition_penalty = repetition_penalty;
  engine.add(std::move(request));
  while (engine.stats().num_output_tokens < 5)
    engine.step();
  for (auto _ : state)
    engine.step();
}
BENCHMARK_CAPTURE(run_long_context, greedy, 1.0)
    ->Arg(1'000)
    ->Arg(16'000)
    ->Arg(128'000)
    ->Iterations(1000)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run_long_context, penalty, 1.1)
    ->Arg(1'000)
    ->Arg(16'000)
    ->Arg(128'000)
    ->Iterations(1000)
    ->Unit(benchmark::kMicrosecond);

// The whole prompt in steps of 2,048 tokens, per token.
void prefill_long_context(benchmark::State& state) {
  const std::int64_t context = state.range(0);
  const WindowedModel model(kBenchWindow, kMaxContext);
  models::OpenModel open(model.path());
  EngineConfig config;
  config.num_kvcache_blocks = 10'000;
  config.max_num_seqs = 1;
  config.enable_prefix_caching = true;
  Engine engine(open, nullptr, config);
  std::int64_t first = 0;
  for (auto _ : state) {
    Request request;
    for (std::int64_t i = 0; i < context; ++i)
      request.prompt.push_back(static_cast<TokenId>((i * i + 7 * i + first) % 300));
    request.params.max_tokens = 1;
    ++first;
    engine.add(std::move(request));
    while (engine.has_work())
      engine.step();
  }
  state.SetItemsProcessed(state.iterations() * context);
}
BENCHMARK(prefill_long_context)
    ->Arg(2'000)
    ->Arg(16'000)
    ->Arg(128'000)
    ->Iterations(2)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace graft::engine
