#include "graft/models/generate.h"

#include <algorithm>
#include <numeric>

#include "graft/base/check.h"
#include "graft/ops/params.h"

namespace graft::models {
namespace {

// A sequence with `context_len` tokens in the blocks of `block_table`.
struct Stream {
  std::vector<std::int32_t> block_table;
  std::int64_t context_len = 0;
  std::int32_t state_slot = -1;
  std::int32_t adapter = -1;
  bool uses_long_rope = false;  // all its tokens are rotated with LongRoPE's long factors
};

std::int64_t blocks_for(const Model& model, std::int64_t num_tokens) {
  return (num_tokens + model.block_tokens() - 1) / model.block_tokens();
}

// Allocates KV cache blocks for sequences of at most the given number of tokens each.
std::vector<Stream> make_streams(Model& model, const std::vector<std::int64_t>& max_tokens) {
  std::vector<Stream> streams(max_tokens.size());
  std::int64_t next_block = 0;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const std::int64_t num_blocks = blocks_for(model, max_tokens[i]);
    streams[i].block_table.resize(static_cast<std::size_t>(num_blocks));
    std::iota(streams[i].block_table.begin(), streams[i].block_table.end(),
              static_cast<std::int32_t>(next_block));
    next_block += num_blocks;
    if (model.has_states()) streams[i].state_slot = static_cast<std::int32_t>(i);
  }
  if (model.num_blocks() < next_block) model.allocate_cache(next_block);
  const auto num_streams = static_cast<std::int64_t>(streams.size());
  if (model.has_states() && model.num_state_slots() < num_streams)
    model.allocate_states(num_streams);
  return streams;
}

bool needs_long_rope(const Model& model, std::int64_t num_tokens) {
  return model.long_rope_from() > 0 && num_tokens > model.long_rope_from();
}

void append(ops::Batch& batch, Stream& stream, std::span<const std::int32_t> tokens) {
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  if (num_tokens == 0) return;
  const std::int64_t first_row = batch.num_tokens();
  const std::int32_t flag = stream.uses_long_rope ? ops::kLongRopeFlag : 0;
  for (const std::int32_t token : tokens) {
    batch.token_ids.push_back(token);
    batch.positions.push_back(static_cast<std::int32_t>(stream.context_len++) + flag);
  }
  batch.sequences.push_back({.first_row = first_row,
                             .num_tokens = num_tokens,
                             .context_len = stream.context_len,
                             .block_table = stream.block_table,
                             .state_slot = stream.state_slot,
                             .adapter = stream.adapter});
}

// As in the engine: a pass in which every sequence adds one token is a decode pass.
ops::Phase phase_of(const ops::Batch& batch) {
  const bool is_generate =
      std::ranges::all_of(batch.sequences, [](const ops::SequenceSlice& sequence) {
        return sequence.num_tokens == 1 && sequence.context_len > 1;
      });
  return is_generate ? ops::Phase::Decode : ops::Phase::Prefill;
}

std::vector<float> forward(Model& model,
                           const ops::Batch& batch,
                           const HiddenObserver& observer = {}) {
  const auto num_rows = static_cast<std::int64_t>(batch.logit_rows.size());
  std::vector<float> logits(static_cast<std::size_t>(num_rows * model.vocab_size()));
  model.forward(batch, phase_of(batch),
                TensorView(logits.data(), DType::F32, {num_rows, model.vocab_size()}), observer);
  return logits;
}

void append_rows(std::vector<float>& to,
                 const float* rows,
                 std::int64_t first,
                 std::int64_t count,
                 std::int64_t cols) {
  to.insert(to.end(), rows + first * cols, rows + (first + count) * cols);
}

// One pass: the next tokens of every unfinished prompt.
void run_pass(Model& model,
              std::span<const TokenIds> prompts,
              const RunOptions& options,
              std::vector<Stream>& streams,
              std::vector<PromptRun>& runs) {
  ops::Batch batch;
  std::vector<std::size_t> prompt_of;  // by sequence of the batch
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto rest =
        std::span(prompts[i]).subspan(static_cast<std::size_t>(streams[i].context_len));
    const std::size_t chunk =
        options.chunk == 0 ? rest.size() : static_cast<std::size_t>(options.chunk);
    if (rest.empty()) continue;
    append(batch, streams[i], rest.first(std::min(chunk, rest.size())));
    prompt_of.push_back(i);
  }
  batch.logit_rows.resize(batch.token_ids.size());
  std::iota(batch.logit_rows.begin(), batch.logit_rows.end(), 0);

  HiddenObserver observer;
  if (options.hidden) {
    observer.see = [&](std::int64_t index, TensorView hidden) {
      for (std::size_t s = 0; s < prompt_of.size(); ++s) {
        const ops::SequenceSlice& sequence = batch.sequences[s];
        append_rows(runs[prompt_of[s]].hidden[static_cast<std::size_t>(index)], hidden.f32(),
                    sequence.first_row, sequence.num_tokens, hidden.cols());
      }
    };
  }
  const std::vector<float> logits = forward(model, batch, observer);
  for (std::size_t s = 0; s < prompt_of.size(); ++s) {
    append_rows(runs[prompt_of[s]].logits, logits.data(), batch.sequences[s].first_row,
                batch.sequences[s].num_tokens, model.vocab_size());
  }
}

}  // namespace

std::vector<PromptRun> run_prompts(Model& model,
                                   std::span<const TokenIds> prompts,
                                   const RunOptions& options) {
  std::vector<std::int64_t> lengths;
  for (const TokenIds& prompt : prompts)
    lengths.push_back(static_cast<std::int64_t>(prompt.size()));
  std::vector<Stream> streams = make_streams(model, lengths);
  for (std::size_t i = 0; i < streams.size(); ++i)
    streams[i].uses_long_rope = needs_long_rope(model, lengths[i]);
  for (std::size_t i = 0; i < std::min(streams.size(), options.adapters.size()); ++i)
    streams[i].adapter = options.adapters[i];
  std::vector<PromptRun> runs(prompts.size());
  for (PromptRun& run : runs) {
    if (options.hidden) run.hidden.resize(static_cast<std::size_t>(model.num_layers()) + 1);
  }
  const auto is_unfinished = [&] {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].context_len < lengths[i]) return true;
    }
    return false;
  };
  while (is_unfinished())
    run_pass(model, prompts, options, streams, runs);
  return runs;
}

TokenIds generate_greedy(Model& model,
                         const TokenIds& prompt,
                         std::int64_t num_tokens,
                         std::int64_t chunk,
                         std::int32_t adapter) {
  GRAFT_CHECK(!prompt.empty(), "the prompt is empty");
  const auto prompt_len = static_cast<std::int64_t>(prompt.size());
  Stream stream = make_streams(model, {prompt_len + num_tokens}).front();
  stream.adapter = adapter;
  TokenIds output;
  TokenIds all;  // the prompt and the output, when the stream starts again
  std::span<const std::int32_t> pending = prompt;
  while (static_cast<std::int64_t>(output.size()) < num_tokens) {
    const auto total = prompt_len + static_cast<std::int64_t>(output.size());
    // A sequence that outgrows the short factors is computed again with the long ones.
    if (!stream.uses_long_rope && needs_long_rope(model, total)) {
      stream.uses_long_rope = true;
      stream.context_len = 0;
      all = prompt;
      all.insert(all.end(), output.begin(), output.end());
      pending = all;
    }
    const std::size_t count =
        chunk == 0 ? pending.size() : std::min(pending.size(), static_cast<std::size_t>(chunk));
    ops::Batch batch;
    append(batch, stream, pending.first(count));
    pending = pending.subspan(count);
    const bool is_last = pending.empty();
    if (is_last) batch.logit_rows = {static_cast<std::int32_t>(count) - 1};
    const std::vector<float> logits = forward(model, batch);
    if (!is_last) continue;
    const auto best = std::ranges::max_element(logits);  // the first of equal maxima
    output.push_back(static_cast<std::int32_t>(best - logits.begin()));
    pending = std::span(output).last(1);
  }
  return output;
}

}  // namespace graft::models
