// CPU time of scheduling one decode step, including block allocation and the prefix cache.

#include "graft/engine/scheduler.h"

#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

namespace graft::engine {
namespace {

// Every sequence is decoding: each step schedules one token per sequence.
void schedule_decode(benchmark::State& state) {
  const std::int64_t num_sequences = state.range(0);
  EngineConfig config;
  config.max_num_seqs = num_sequences;
  config.max_num_batched_tokens = 2048;
  config.chunk_prefill_size = 2048;
  BlockManager blocks(200'000, 16);
  Scheduler scheduler(config, blocks);
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (std::int64_t i = 0; i < num_sequences; ++i) {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = {.request = static_cast<RequestId>(i), .sample = 0};
    sequence->arrival_order = static_cast<std::uint64_t>(i);
    sequence->num_prompt = 500;
    for (TokenId k = 0; k < 500; ++k)
      sequence->tokens.push_back(static_cast<TokenId>(i) * 1000 + k);
    scheduler.add(*sequence);
    sequences.push_back(std::move(sequence));
  }
  const auto commit = [](const Schedule& schedule) {
    for (const ScheduledSequence& scheduled : schedule.sequences) {
      const bool is_complete = scheduled.is_complete();
      scheduled.sequence->num_computed += scheduled.num_tokens;
      if (is_complete) scheduled.sequence->tokens.push_back(7);
    }
  };
  while (scheduler.num_waiting() > 0 || sequences.back()->num_output() == 0)
    commit(scheduler.schedule());
  for (auto _ : state) {
    const Schedule schedule = scheduler.schedule();
    state.PauseTiming();
    commit(schedule);
    if (sequences[0]->num_output() > 9000) state.SkipWithError("out of blocks");
    state.ResumeTiming();
  }
  for (const auto& sequence : sequences)
    scheduler.remove(*sequence);
}
BENCHMARK(schedule_decode)
    ->Arg(1)
    ->Arg(64)
    ->Arg(256)
    ->Iterations(3000)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace graft::engine
