// Engine::embed.

#include <algorithm>
#include <cmath>
#include <exception>

#include "graft/base/error.h"
#include "graft/engine/engine.h"
#include "graft/tensor/tensor.h"

namespace graft::engine {
namespace {

// Accumulates the hidden states of a text, chunk by chunk.
class Pooler {
 public:
  Pooler(Pooling pooling, std::int64_t hidden_size)
      : pooling_(pooling), sum_(static_cast<std::size_t>(hidden_size), 0.0) {}

  void add(TensorView rows) {
    const std::int64_t first = pooling_ == Pooling::Last ? rows.rows() - 1 : 0;
    if (pooling_ == Pooling::Last) std::ranges::fill(sum_, 0.0);
    for (std::int64_t row = first; row < rows.rows(); ++row) {
      const float* values = rows.f32_row(row);
      for (std::size_t i = 0; i < sum_.size(); ++i)
        sum_[i] += static_cast<double>(values[i]);
    }
  }

  // Normalized to length 1, so the sum gives the same result as the mean.
  std::vector<float> unit_vector() const {
    double squares = 0;
    for (const double value : sum_)
      squares += value * value;
    const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
    std::vector<float> out;
    out.reserve(sum_.size());
    for (const double value : sum_)
      out.push_back(static_cast<float>(value * scale));
    return out;
  }

 private:
  Pooling pooling_;
  std::vector<double> sum_;
};

ops::Batch chunk_of(const std::vector<TokenId>& tokens,
                    std::int64_t first,
                    std::int64_t end,
                    const BlockTable& table) {
  ops::Batch batch;
  for (std::int64_t position = first; position < end; ++position) {
    batch.token_ids.push_back(tokens[static_cast<std::size_t>(position)]);
    batch.positions.push_back(static_cast<std::int32_t>(position));
  }
  batch.sequences.push_back(
      {.first_row = 0, .num_tokens = end - first, .context_len = end, .block_table = table.blocks});
  return batch;
}

}  // namespace

std::optional<std::vector<float>> Engine::embed(const std::vector<TokenId>& tokens,
                                                Pooling pooling) {
  check({.prompt = tokens});
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  BlockTable table;
  std::vector<BlockCopy> copies;
  if (!blocks_.prepare(table, 0, num_tokens, copies)) return std::nullopt;
  models::Model& model = open_.model();
  Pooler pooler(pooling, model.hidden_size());
  try {
    for (std::int64_t first = 0; first < num_tokens; first += config_.max_num_batched_tokens) {
      const std::int64_t end = std::min(num_tokens, first + config_.max_num_batched_tokens);
      model.forward(chunk_of(tokens, first, end, table), ops::Phase::Prefill,
                    {.logits = TensorView(nullptr, DType::F32, {0, model.vocab_size()})},
                    {.see = [&](std::int64_t, TensorView hidden) { pooler.add(hidden); },
                     .is_last_only = true});
      num_computed_tokens_ += end - first;
    }
  } catch (const std::exception& error) {
    blocks_.free(table);
    throw Failure(error.what());
  }
  blocks_.free(table);
  return pooler.unit_vector();
}

}  // namespace graft::engine
