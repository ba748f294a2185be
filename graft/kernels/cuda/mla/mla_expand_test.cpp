#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "graft/kernels/cuda/mla/mla.h"
#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;

struct Prompt {
  std::int64_t num_tokens;
  std::int64_t context_len;
};

struct ExpandCase {
  MlaShape shape;
  std::vector<Prompt> prompts;
  std::int64_t block_tokens = 16;
  DType weights = DType::F16;
  DType cache = DType::F16;
  Arithmetic arithmetic = Arithmetic::F16;
  std::int64_t group = 0;    // heads at a time; 0: all
  std::int64_t skipped = 0;  // leading prompts that are not in the batch
};

Floats rounded(Floats values, DType dtype, std::vector<std::byte>& bytes) {
  const quant::Codec& codec = quant::reference_codecs()[static_cast<std::size_t>(dtype)];
  bytes.resize(bytes_of(dtype, static_cast<std::int64_t>(values.size())));
  codec.encode(values.data(), bytes.data(), values.size());
  codec.decode(bytes.data(), values.data(), values.size());
  return values;
}

// Latents of all prompts in a cache with shuffled blocks.
class ExpandedMla {
 public:
  explicit ExpandedMla(const ExpandCase& c) : case_(c), random_(77) {
    const MlaShape& s = c.shape;
    kv_b_ = random_.floats(s.num_heads * (s.nope + s.value) * s.rank,
                           1.0F / std::sqrt(static_cast<float>(s.rank)));
    std::vector<std::byte> unused;
    kv_b_ = rounded(kv_b_, c.weights, unused);
    place_blocks();
    queries_ = random_.floats(num_rows_ * s.num_heads * query_dim());
  }

  // Rows of the prompts in the batch.
  Floats run() {
    const MlaShape& s = case_.shape;
    const DeviceArray<float> kv_b(kv_b_);
    const DeviceArray<float> keys(static_cast<std::size_t>(s.num_heads * s.rank * s.nope));
    const DeviceArray<float> values(static_cast<std::size_t>(s.num_heads * s.rank * s.value));
    const MlaWeights weights = {.dtype = case_.weights, .keys = keys.get(), .values = values.get()};
    split_kv_b(s, kv_b.get(), weights, nullptr);
    const DeviceArray<std::byte> cache(cache_bytes_);
    const DeviceArray<float> queries(queries_);
    const DeviceArray<float> out(static_cast<std::size_t>(num_rows_ * s.num_heads * s.value));
    const DeviceArray<std::int32_t> first_rows(first_rows_);
    const DeviceArray<std::int32_t> num_tokens(num_tokens_);
    const DeviceArray<std::int32_t> context_lens(context_lens_);
    const DeviceArray<std::int32_t> tables(tables_);
    const std::int64_t base_row = first_rows_[static_cast<std::size_t>(case_.skipped)];
    const AttentionBatch batch = {.first_rows = first_rows.get() + case_.skipped,
                                  .num_tokens = num_tokens.get() + case_.skipped,
                                  .context_lens = context_lens.get() + case_.skipped,
                                  .block_tables = tables.get() + case_.skipped * table_stride_,
                                  .table_stride = table_stride_,
                                  .block_tokens = case_.block_tokens,
                                  .num_sequences = num_prompts(),
                                  .base_row = base_row,
                                  .num_rows = num_rows_ - base_row,
                                  .max_tokens = longest(&Prompt::num_tokens),
                                  .max_context = longest(&Prompt::context_len)};
    attend(batch, weights, {.dtype = case_.cache, .data = cache.get(), .key_size = s.rank + s.rope},
           {queries.get() + base_row * s.num_heads * query_dim(), s.num_heads * query_dim()},
           {out.get(), s.num_heads * s.value});
    Floats all = out.download();
    all.resize(static_cast<std::size_t>((num_rows_ - base_row) * s.num_heads * s.value));
    return all;
  }

  Floats reference() const {
    Floats out;
    for (std::size_t p = static_cast<std::size_t>(case_.skipped); p < case_.prompts.size(); ++p)
      attend_reference(p, out);
    return out;
  }

  DType dtype = {};  // of the last run
  std::int64_t num_splits = 0;

 private:
  std::int64_t query_dim() const { return case_.shape.nope + case_.shape.rope; }
  std::int64_t cache_dim() const { return case_.shape.rank + case_.shape.rope; }
  std::int64_t num_prompts() const {
    return static_cast<std::int64_t>(case_.prompts.size()) - case_.skipped;
  }
  std::int64_t longest(std::int64_t Prompt::*length) const {
    std::int64_t max = 0;
    for (const Prompt& prompt : case_.prompts)
      max = std::max(max, prompt.*length);
    return max;
  }

  void place_blocks() {
    std::int64_t num_blocks = 0;
    for (const Prompt& p : case_.prompts)
      num_blocks += (p.context_len + case_.block_tokens - 1) / case_.block_tokens;
    cache_ = rounded(random_.floats(num_blocks * case_.block_tokens * cache_dim()), case_.cache,
                     cache_bytes_);
    std::vector<std::int32_t> blocks(static_cast<std::size_t>(num_blocks));
    std::iota(blocks.begin(), blocks.end(), 0);
    std::ranges::shuffle(blocks, random_.engine());
    table_stride_ = longest(&Prompt::context_len) / case_.block_tokens + 2;
    std::size_t next = 0;
    for (const Prompt& p : case_.prompts) {
      first_rows_.push_back(static_cast<std::int32_t>(num_rows_));
      num_tokens_.push_back(static_cast<std::int32_t>(p.num_tokens));
      context_lens_.push_back(static_cast<std::int32_t>(p.context_len));
      num_rows_ += p.num_tokens;
      std::vector<std::int32_t> table(static_cast<std::size_t>(table_stride_), -1);
      for (std::int64_t i = 0; i * case_.block_tokens < p.context_len; ++i)
        table[static_cast<std::size_t>(i)] = blocks[next++];
      tables_.insert(tables_.end(), table.begin(), table.end());
    }
  }

  void attend(const AttentionBatch& batch,
              const MlaWeights& weights,
              const CacheRows& cache,
              ConstRows queries,
              Rows out) {
    const MlaShape& s = case_.shape;
    ExpandedLatents expanded = {.dtype = expanded_type(s, weights, cache.dtype, case_.arithmetic)};
    dtype = expanded.dtype;
    for (std::size_t p = static_cast<std::size_t>(case_.skipped); p < case_.prompts.size(); ++p)
      expanded.rows += case_.prompts[p].context_len;
    const std::int64_t group = case_.group == 0 ? s.num_heads : case_.group;
    const DeviceArray<std::byte> latents(latents_bytes(s, dtype, expanded.rows));
    const DeviceArray<std::byte> heads(heads_bytes(s, dtype, expanded.rows, group));
    expanded.latents = latents.get();
    expanded.heads = heads.get();
    gather_latents(batch, cache, expanded, nullptr);
    for (std::int64_t head = 0; head < s.num_heads; head += group) {
      expanded.first_head = head;
      expanded.num_heads = std::min(group, s.num_heads - head);
      const ExpandedAttention attention = plan_expanded(s, kScale, batch, expanded);
      num_splits = attention.plan.num_splits;
      const DeviceArray<std::byte> scratch(attention.plan.scratch_bytes);
      expand_latents(s, weights, expanded, nullptr);
      attend_expanded(s, attention, batch, expanded, queries, out, scratch.get(), nullptr);
      testing::check(cudaDeviceSynchronize());
    }
  }

  const float* latent(std::size_t prompt, std::int64_t position) const {
    const std::int32_t block = tables_[prompt * static_cast<std::size_t>(table_stride_) +
                                       static_cast<std::size_t>(position / case_.block_tokens)];
    return cache_.data() +
           (block * case_.block_tokens + position % case_.block_tokens) * cache_dim();
  }

  // Keys [context, nope + rope] and values [context, value] of a head.
  std::vector<double> expand(std::size_t prompt, std::int64_t first_row, std::int64_t cols) const {
    const MlaShape& s = case_.shape;
    std::vector<double> all;
    for (std::int64_t p = 0; p < case_.prompts[prompt].context_len; ++p) {
      const float* c = latent(prompt, p);
      for (std::int64_t row = first_row; row < first_row + cols; ++row)
        all.push_back(std::inner_product(c, c + s.rank, kv_b_.data() + row * s.rank, 0.0));
    }
    return all;
  }

  // Appends the rows [tokens, heads, value] of a prompt.
  void attend_reference(std::size_t prompt, Floats& out) const {
    const MlaShape& s = case_.shape;
    const Prompt& p = case_.prompts[prompt];
    const std::size_t first = out.size();
    out.resize(first + static_cast<std::size_t>(p.num_tokens * s.num_heads * s.value));
    for (std::int64_t head = 0; head < s.num_heads; ++head) {
      const std::int64_t row = head * (s.nope + s.value);
      const std::vector<double> keys = expand(prompt, row, s.nope);
      const std::vector<double> values = expand(prompt, row + s.nope, s.value);
      for (std::int64_t token = 0; token < p.num_tokens; ++token) {
        attend_token(
            prompt, token, head, keys, values,
            out.data() + first + static_cast<std::size_t>((token * s.num_heads + head) * s.value));
      }
    }
  }

  void attend_token(std::size_t prompt,
                    std::int64_t token,
                    std::int64_t head,
                    const std::vector<double>& keys,
                    const std::vector<double>& values,
                    float* out) const {
    const MlaShape& s = case_.shape;
    const Prompt& p = case_.prompts[prompt];
    const float* q =
        queries_.data() + ((first_rows_[prompt] + token) * s.num_heads + head) * query_dim();
    std::vector<double> weights;
    double max = -INFINITY;
    for (std::int64_t at = 0; at <= p.context_len - p.num_tokens + token; ++at) {
      const double own = std::inner_product(q, q + s.nope, keys.data() + at * s.nope, 0.0);
      const double rope =
          std::inner_product(q + s.nope, q + query_dim(), latent(prompt, at) + s.rank, 0.0);
      weights.push_back((own + rope) * kScale);
      max = std::max(max, weights.back());
    }
    double sum = 0;
    for (double& weight : weights)
      sum += weight = std::exp(weight - max);
    for (std::int64_t i = 0; i < s.value; ++i) {
      double value = 0;
      for (std::size_t at = 0; at < weights.size(); ++at)
        value += weights[at] *
                 values[at * static_cast<std::size_t>(s.value) + static_cast<std::size_t>(i)];
      out[i] = static_cast<float>(value / sum);
    }
  }

  static constexpr float kScale = 0.08F;
  ExpandCase case_;
  Random random_;
  Floats kv_b_;
  Floats cache_;
  Floats queries_;
  std::vector<std::byte> cache_bytes_;
  std::vector<std::int32_t> first_rows_;
  std::vector<std::int32_t> num_tokens_;
  std::vector<std::int32_t> context_lens_;
  std::vector<std::int32_t> tables_;
  std::int64_t table_stride_ = 0;
  std::int64_t num_rows_ = 0;
};

constexpr MlaShape kDeepSeek = {.num_heads = 3, .rank = 512, .nope = 128, .rope = 64, .value = 128};
constexpr MlaShape kSmall = {.num_heads = 5, .rank = 72, .nope = 32, .rope = 16, .value = 96};

class MlaExpand : public testing::GpuTest {};

// On tensor cores latents, keys, values, queries and softmax weights are F16.
TEST_F(MlaExpand, TensorCores) {
  const std::vector<ExpandCase> cases = {
      {.shape = kDeepSeek, .prompts = {{130, 130}}},
      {.shape = kDeepSeek, .prompts = {{5, 300}, {64, 64}, {2, 2}, {200, 263}}},
      {.shape = kDeepSeek, .prompts = {{65, 129}}, .block_tokens = 3, .group = 2},
      {.shape = kSmall, .prompts = {{33, 33}, {17, 150}}, .group = 2},
      {.shape = kSmall, .prompts = {{9, 9}, {40, 90}, {31, 31}}, .skipped = 1},
  };
  for (ExpandCase c : cases) {
    for (const DType cache : {DType::F16, DType::BF16}) {
      c.cache = cache;
      ExpandedMla test(c);
      EXPECT_LT(relative_error(test.run(), test.reference()), 2e-3);
      EXPECT_EQ(test.dtype, DType::F16);
    }
  }
}

// A short chunk after a long prefix has few tiles of queries.
TEST_F(MlaExpand, KvSplits) {
  ExpandedMla test({.shape = kSmall, .prompts = {{20, 2100}, {3, 700}}});
  EXPECT_LT(relative_error(test.run(), test.reference()), 2e-3);
  EXPECT_GT(test.num_splits, 4);
}

TEST_F(MlaExpand, F32) {
  const MlaShape odd = {.num_heads = 2, .rank = 33, .nope = 7, .rope = 5, .value = 9};
  const std::vector<ExpandCase> cases = {
      {.shape = odd, .prompts = {{70, 70}, {3, 20}}},
      {.shape = kSmall, .prompts = {{20, 100}}, .arithmetic = Arithmetic::F32},
      {.shape = kSmall, .prompts = {{66, 66}}, .cache = DType::F32, .group = 2},
      {.shape = kDeepSeek, .prompts = {{17, 17}, {2, 70}}, .weights = DType::F32},
  };
  for (const ExpandCase& c : cases) {
    ExpandedMla test(c);
    EXPECT_LT(relative_error(test.run(), test.reference()), 3e-6);
    EXPECT_EQ(test.dtype, DType::F32);
  }
}

}  // namespace
}  // namespace graft::kernels::cuda
