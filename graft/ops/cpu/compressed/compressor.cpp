#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/weight.h"

namespace graft::ops::cpu {
namespace {

// A window whose last token is a row of the pass.
struct CompleteWindow {
  const SequenceSlice* sequence = nullptr;
  std::int64_t begin = 0;  // position of its first token
  std::int64_t row = 0;    // of its last token
};

class CompressorCpu final : public CompressorCore {
 public:
  CompressorCpu(const CompressorParams& params, const BuildContext& context)
      : module_(context.module),
        params_(params),
        window_cache_(*context.child_as<KvCache>("window_cache")),
        kv_cache_(*context.child_as<KvCache>("kv_cache")),
        kv_norm_(*context.child_as<Norm>("kv_norm")),
        rotary_emb_(*context.child_as<Rope>("rotary_emb")) {}

  void load(WeightProvider& weights) override {
    const Weight bias = weights.get(module_ + ".position_bias");
    bias.expect_shape(params_.rate, params_.row_size());
    position_bias_ = bias.decode();
  }
  void unload() override { position_bias_ = {}; }

  void store(TensorView projection, TensorView logits, Pass& pass) override {
    for (const SequenceSlice& sequence : pass.batch.sequences) {
      const std::int64_t first = sequence.context_len - sequence.num_tokens;
      for (std::int64_t i = 0; i < sequence.num_tokens; ++i) {
        const float* bias = position_bias_.data() + (first + i) % params_.rate * params_.row_size();
        kernels::cpu::kernels().math.axpy(1.0F, bias, logits.f32_row(sequence.first_row + i),
                                          logits.cols());
      }
    }
    window_cache_.write(projection, logits, pass);
  }

  void compress(Pass& pass) override {
    const Workspace::Scope scope(pass.workspace);
    const TensorView entries = pass.workspace.f32({pass.batch.num_tokens(), params_.head_dim});
    std::fill_n(entries.f32(), entries.num_elems(), 0.0F);
    const std::vector<CompleteWindow> windows = complete_windows(pass.batch);
    if (!windows.empty()) make_entries(windows, entries, pass);
    kv_cache_.write(entries, {}, pass);
  }

 private:
  void make_entries(const std::vector<CompleteWindow>& windows, TensorView entries, Pass& pass) {
    const Workspace::Scope scope(pass.workspace);
    const auto num_windows = static_cast<std::int64_t>(windows.size());
    const TensorView memory =
        pass.workspace.f32({num_workers(pass.pool, num_windows), memory_elems()});
    for_each_item(pass.pool, num_windows, [&](std::int64_t worker, std::int64_t i) {
      const CompleteWindow& window = windows[static_cast<std::size_t>(i)];
      add_up(window, entries.f32_row(window.row), memory.f32_row(worker));
    });
    kv_norm_.forward(entries, entries, pass);
    rotate(windows, entries, pass);
  }

  std::vector<CompleteWindow> complete_windows(const Batch& batch) const {
    std::vector<CompleteWindow> windows;
    for (const SequenceSlice& sequence : batch.unpadded_sequences()) {
      const std::int64_t first = sequence.context_len - sequence.num_tokens;
      for (std::int64_t end = (first / params_.rate + 1) * params_.rate;
           end <= sequence.context_len; end += params_.rate) {
        windows.push_back({.sequence = &sequence,
                           .begin = end - params_.rate,
                           .row = sequence.first_row + end - 1 - first});
      }
    }
    return windows;
  }

  // Values and logits of up to two windows, then a maximum and a sum for each value.
  std::int64_t memory_elems() const { return (4 * params_.rate + 2) * params_.head_dim; }

  void read(const SequenceSlice& sequence,
            std::int64_t begin,
            std::int64_t first_col,
            float* values,
            float* logits) const {
    const KvCache::Part part = {.begin = begin,
                                .end = begin + params_.rate,
                                .first_col = first_col,
                                .num_cols = params_.head_dim};
    window_cache_.read_keys(sequence, part, values);
    window_cache_.read_values(sequence, part, logits);
  }

  // out[head_dim] = the sum of the rows' values, weighted by a softmax over the rows.
  void add_up(const CompleteWindow& window, float* out, float* memory) const {
    const std::int64_t size = params_.head_dim;
    float* values = memory;
    float* logits = values + 2 * params_.rate * size;
    float* max = logits + 2 * params_.rate * size;
    float* sum = max + size;
    std::int64_t num_rows = 0;
    if (params_.overlaps && window.begin > 0) {
      read(*window.sequence, window.begin - params_.rate, 0, values, logits);
      num_rows = params_.rate;
    }
    read(*window.sequence, window.begin, params_.overlaps ? size : 0, values + num_rows * size,
         logits + num_rows * size);
    num_rows += params_.rate;
    std::fill_n(max, size, -std::numeric_limits<float>::infinity());
    for (std::int64_t row = 0; row < num_rows; ++row) {
      for (std::int64_t i = 0; i < size; ++i)
        max[i] = std::max(max[i], logits[row * size + i]);
    }
    std::fill_n(sum, size, 0.0F);
    for (std::int64_t row = 0; row < num_rows; ++row) {
      for (std::int64_t i = 0; i < size; ++i) {
        const float weight = std::exp(logits[row * size + i] - max[i]);
        sum[i] += weight;
        out[i] += weight * values[row * size + i];
      }
    }
    for (std::int64_t i = 0; i < size; ++i)
      out[i] /= sum[i];
  }

  // An entry has the position of its window's first token.
  void rotate(const std::vector<CompleteWindow>& windows, TensorView entries, Pass& pass) {
    Batch batch;
    batch.positions = pass.batch.positions;
    for (const CompleteWindow& window : windows) {
      batch.positions[static_cast<std::size_t>(window.row)] =
          static_cast<std::int32_t>(window.begin);
    }
    Pass there = with(pass, batch, pass.workspace);
    rotary_emb_.forward(entries,
                        {.num_heads = 1,
                         .head_dim = params_.head_dim,
                         .offset = params_.head_dim - params_.rope_dim},
                        there);
  }

  std::string module_;
  CompressorParams params_;
  KvCache& window_cache_;
  KvCache& kv_cache_;
  Norm& kv_norm_;
  Rope& rotary_emb_;
  std::vector<float> position_bias_;  // [rate, row_size]
};

}  // namespace

std::unique_ptr<CompressorCore> make_compressor_core(const CompressorParams& params,
                                                     const BuildContext& context) {
  return std::make_unique<CompressorCpu>(params, context);
}

}  // namespace graft::ops::cpu
