// The gated delta rule as a plain recurrence over the tokens of each sequence, parallel over
// sequences, heads and columns of the states. The states are f32, so the bits do not depend on the
// prefill chunks.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"

namespace graft::ops::cpu {
namespace {

constexpr float kL2Eps = 1e-6F;
// Columns of a state per work item: with keys of 128 values they take 32 KiB, the L1 cache.
constexpr std::int64_t kStateCols = 64;
constexpr std::int64_t kMaxTaps = 16;
constexpr std::int64_t kDeltaRowsPerItem = 4;

float softplus(float x) {
  constexpr float kLinearFrom = 20.0F;  // log(1 + exp(x)) is x there
  return x > kLinearFrom ? x : std::log1p(std::exp(x));
}

class DeltaNetCpu final : public DeltaNetCore {
 public:
  explicit DeltaNetCpu(const BuildContext& context)
      : params_(context.params_as<DeltaNetParams>()),
        module_(context.module),
        state_cache_(*context.child_as<StateCache>("state_cache")) {
    GRAFT_CHECK(params_.conv_kernel >= 1 && params_.conv_kernel <= kMaxTaps, module_,
                ": kernel of ", params_.conv_kernel);
  }

  void load(WeightProvider& weights) override {
    const std::int64_t channels = params_.conv_channels();
    const std::vector<float> kernel = weights.get(module_ + ".conv1d.weight").decode();
    GRAFT_CHECK(static_cast<std::int64_t>(kernel.size()) == channels * params_.conv_kernel, module_,
                ": convolution of ", kernel.size(), " values");
    taps_.resize(kernel.size());
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      for (std::int64_t tap = 0; tap < params_.conv_kernel; ++tap) {
        taps_[static_cast<std::size_t>(tap * channels + channel)] =
            kernel[static_cast<std::size_t>(channel * params_.conv_kernel + tap)];
      }
    }
    decay_ = load_vector(weights, module_ + ".A_log", params_.num_value_heads);
    dt_bias_ = load_vector(weights, module_ + ".dt_bias", params_.num_value_heads);
    norm_ = load_vector(weights, module_ + ".norm.weight", params_.value_head_dim);
  }
  void unload() override { taps_ = decay_ = dt_bias_ = norm_ = {}; }

  void forward(const DeltaNetInput& in, TensorView out, Pass& pass) override {
    const Workspace::Scope scope(pass.workspace);
    const TensorView filtered = pass.workspace.f32({in.qkv.rows(), in.qkv.cols()});
    const std::span<const SequenceSlice> sequences = pass.batch.unpadded_sequences();
    filter(in, filtered, sequences, pass);
    store_conv_inputs(in.qkv, sequences);
    run_recurrence(in, filtered, out, sequences, pass);
    for (const SequenceSlice& padding : std::span(pass.batch.sequences).subspan(sequences.size()))
      std::fill_n(out.f32_row(padding.first_row), padding.num_tokens * out.cols(), 0.0F);
    gate(in.z, out, pass);
  }

 private:
  static bool is_first(const SequenceSlice& sequence) {
    return sequence.context_len == sequence.num_tokens;
  }
  float* slot(std::int32_t index) const { return state_cache_.slots().f32_row(index); }
  float* conv_inputs(std::int32_t index) const {
    return slot(index) + params_.num_value_heads * params_.key_head_dim * params_.value_head_dim;
  }

  // Convolution, L2 norms and the factors of the recurrence: decay in `a`, beta in `b`.
  void filter(const DeltaNetInput& in,
              TensorView filtered,
              std::span<const SequenceSlice> sequences,
              Pass& pass) {
    const std::vector<float> zeros(static_cast<std::size_t>(params_.conv_channels()));
    for (const SequenceSlice& sequence : sequences) {
      GRAFT_DCHECK(sequence.state_slot >= 0, module_, ": a sequence without a state");
      const std::int64_t num_items =
          (sequence.num_tokens + kDeltaRowsPerItem - 1) / kDeltaRowsPerItem;
      for_each_item(pass.pool, num_items, [&](std::int64_t /*worker*/, std::int64_t item) {
        const std::int64_t end = std::min(sequence.num_tokens, (item + 1) * kDeltaRowsPerItem);
        for (std::int64_t i = item * kDeltaRowsPerItem; i < end; ++i)
          filter_row(in, filtered, sequence, i, zeros.data());
      });
    }
  }

  void filter_row(const DeltaNetInput& in,
                  TensorView filtered,
                  const SequenceSlice& sequence,
                  std::int64_t i,
                  const float* zeros) const {
    const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
    const std::int64_t channels = params_.conv_channels();
    const std::int64_t num_before = params_.conv_kernel - 1;
    std::array<const float*, kMaxTaps> rows{};
    for (std::int64_t tap = 0; tap < params_.conv_kernel; ++tap) {
      const std::int64_t token = i - num_before + tap;
      const float* before =
          is_first(sequence) ? zeros
                             : conv_inputs(sequence.state_slot) + (num_before + token) * channels;
      rows[static_cast<std::size_t>(tap)] =
          token < 0 ? before : in.qkv.f32_row(sequence.first_row + token);
    }
    const std::int64_t row = sequence.first_row + i;
    float* y = filtered.f32_row(row);
    math.conv_silu(rows.data(), taps_.data(), params_.conv_kernel, y, channels);
    const float scale = 1.0F / std::sqrt(static_cast<float>(params_.key_head_dim));
    for (std::int64_t head = 0; head < 2 * params_.num_key_heads; ++head) {
      math.l2_norm(y + head * params_.key_head_dim, params_.key_head_dim, kL2Eps,
                   head < params_.num_key_heads ? scale : 1.0F);
    }
    math.sigmoid(in.b.f32_row(row), params_.num_value_heads);
    float* a = in.a.f32_row(row);
    for (std::int64_t head = 0; head < params_.num_value_heads; ++head) {
      const auto h = static_cast<std::size_t>(head);
      a[head] = std::exp(decay_[h] * softplus(a[head] + dt_bias_[h]));
    }
  }

  // The last conv_kernel - 1 inputs up to each checkpoint and to the end. Checkpoints first: they
  // may need inputs of the pass before, which the last call replaces.
  void store_conv_inputs(TensorView qkv, std::span<const SequenceSlice> sequences) const {
    for (const SequenceSlice& sequence : sequences) {
      for (const StateCheckpoint& checkpoint : sequence.checkpoints)
        store_conv_inputs(qkv, sequence, checkpoint.num_tokens, conv_inputs(checkpoint.slot));
      store_conv_inputs(qkv, sequence, sequence.num_tokens, conv_inputs(sequence.state_slot));
    }
  }

  void store_conv_inputs(TensorView qkv,
                         const SequenceSlice& sequence,
                         std::int64_t num_tokens,
                         float* to) const {
    const std::int64_t channels = params_.conv_channels();
    const std::int64_t num_before = params_.conv_kernel - 1;
    for (std::int64_t i = 0; i < num_before; ++i, to += channels) {
      const std::int64_t token = num_tokens - num_before + i;
      if (token >= 0) {
        std::copy_n(qkv.f32_row(sequence.first_row + token), channels, to);
      } else if (is_first(sequence)) {
        std::fill_n(to, channels, 0.0F);
      } else {
        // Ascending, so that a row is read before it is replaced.
        std::copy_n(conv_inputs(sequence.state_slot) + (num_before + token) * channels, channels,
                    to);
      }
    }
  }

  void run_recurrence(const DeltaNetInput& in,
                      TensorView filtered,
                      TensorView out,
                      std::span<const SequenceSlice> sequences,
                      Pass& pass) const {
    const std::int64_t tiles = (params_.value_head_dim + kStateCols - 1) / kStateCols;
    const std::int64_t per_sequence = params_.num_value_heads * tiles;
    const auto num_items = static_cast<std::int64_t>(sequences.size()) * per_sequence;
    for_each_item(pass.pool, num_items, [&](std::int64_t /*worker*/, std::int64_t item) {
      const std::int64_t in_sequence = item % per_sequence;
      run_tile(in, filtered, out, sequences[static_cast<std::size_t>(item / per_sequence)],
               in_sequence / tiles, in_sequence % tiles * kStateCols);
    });
  }

  // Columns from `col` on of the state of one value head.
  void run_tile(const DeltaNetInput& in,
                TensorView filtered,
                TensorView out,
                const SequenceSlice& sequence,
                std::int64_t head,
                std::int64_t col) const {
    const std::int64_t key_dim = params_.key_head_dim;
    const std::int64_t value_dim = params_.value_head_dim;
    const std::int64_t offset = head * key_dim * value_dim + col;
    const float* row = filtered.f32_row(sequence.first_row);
    const std::int64_t q_col = params_.key_head(head) * key_dim;
    kernels::cpu::DeltaRule rule = {.q = row + q_col,
                                    .k = row + params_.key_size() + q_col,
                                    .qk_stride = filtered.cols(),
                                    .v = row + 2 * params_.key_size() + head * value_dim + col,
                                    .v_stride = filtered.cols(),
                                    .decay = in.a.f32_row(sequence.first_row) + head,
                                    .beta = in.b.f32_row(sequence.first_row) + head,
                                    .gate_stride = params_.num_value_heads,
                                    .out = out.f32_row(sequence.first_row) + head * value_dim + col,
                                    .out_stride = out.cols(),
                                    .state = slot(sequence.state_slot) + offset,
                                    .state_stride = value_dim,
                                    .key_dim = key_dim,
                                    .cols = std::min(kStateCols, value_dim - col)};
    if (is_first(sequence)) {
      for (std::int64_t i = 0; i < key_dim; ++i)
        std::fill_n(rule.state + i * value_dim, rule.cols, 0.0F);
    }
    std::int64_t done = 0;
    for (const StateCheckpoint& checkpoint : sequence.checkpoints) {
      run_tokens(rule, checkpoint.num_tokens - done);
      done = checkpoint.num_tokens;
      float* to = slot(checkpoint.slot) + offset;
      for (std::int64_t i = 0; i < key_dim; ++i)
        std::copy_n(rule.state + i * value_dim, rule.cols, to + i * value_dim);
    }
    run_tokens(rule, sequence.num_tokens - done);
  }

  static void run_tokens(kernels::cpu::DeltaRule& rule, std::int64_t count) {
    rule.tokens = count;
    kernels::cpu::kernels().math.delta_rule(rule);
    rule.q += count * rule.qk_stride;
    rule.k += count * rule.qk_stride;
    rule.v += count * rule.v_stride;
    rule.decay += count * rule.gate_stride;
    rule.beta += count * rule.gate_stride;
    rule.out += count * rule.out_stride;
  }

  // out = norm(out) * silu(z), each head by itself.
  void gate(TensorView z, TensorView out, Pass& pass) const {
    const std::int64_t num_items = (out.rows() + kDeltaRowsPerItem - 1) / kDeltaRowsPerItem;
    for_each_item(pass.pool, num_items, [&](std::int64_t /*worker*/, std::int64_t item) {
      const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
      const std::int64_t end = std::min(out.rows(), (item + 1) * kDeltaRowsPerItem);
      for (std::int64_t row = item * kDeltaRowsPerItem; row < end; ++row) {
        float* y = out.f32_row(row);
        for (std::int64_t head = 0; head < params_.num_value_heads; ++head) {
          float* values = y + head * params_.value_head_dim;
          math.rms_norm(values, norm_.data(), values, params_.value_head_dim,
                        static_cast<float>(params_.eps));
        }
        math.silu_mul(z.f32_row(row), y, y, out.cols());
      }
    });
  }

  DeltaNetParams params_;
  std::string module_;
  StateCache& state_cache_;
  std::vector<float> taps_;     // [conv_kernel, channels]
  std::vector<float> decay_;    // [value heads], -exp(A_log)
  std::vector<float> dt_bias_;  // [value heads]
  std::vector<float> norm_;     // [value_head_dim]
};

}  // namespace

std::unique_ptr<DeltaNetCore> make_delta_net_core(const BuildContext& context) {
  return std::make_unique<DeltaNetCpu>(context);
}

}  // namespace graft::ops::cpu
