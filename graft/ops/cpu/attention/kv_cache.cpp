#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/system/reserved_memory.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cpu/attention/stored_cache.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cpu {
namespace {

// Rows per work item: quantizing a row takes less than 1 us, waking a thread several us.
constexpr std::int64_t kKvRowsPerItem = 64;

using DecodeRows = void (*)(kernels::cpu::StoredRows in, float* out);

struct CacheType {
  DType dtype;
  kernels::cpu::StoredAttention kernels::cpu::MathTable::*attention;
  DecodeRows kernels::cpu::MathTable::*decode_rows;  // null: row by row with the dtype's codec
};

constexpr std::array kCacheTypes = {
    CacheType{DType::F32, &kernels::cpu::MathTable::attend_f32,
              &kernels::cpu::MathTable::decode_f32_rows},
    CacheType{DType::F16, &kernels::cpu::MathTable::attend_f16,
              &kernels::cpu::MathTable::decode_f16_rows},
    CacheType{DType::BF16, &kernels::cpu::MathTable::attend_bf16,
              &kernels::cpu::MathTable::decode_bf16_rows},
    CacheType{DType::F8_E4M3, &kernels::cpu::MathTable::attend_e4m3, nullptr},
    CacheType{DType::Q8_0, &kernels::cpu::MathTable::attend_q8_0, nullptr},
    CacheType{DType::Q4_0, &kernels::cpu::MathTable::attend_q4_0, nullptr},
};

class KvCacheCpu final : public KvCache, public StoredCache {
 public:
  KvCacheCpu(std::string module,
             const KvCacheParams& params,
             const CacheType& type,
             std::int64_t block_tokens)
      : module_(std::move(module)),
        params_(params),
        dtype_(type.dtype),
        attention_(type.attention),
        decode_rows_(type.decode_rows),
        row_bytes_(bytes_of(dtype_, params_.key_size + params_.value_size)),
        block_tokens_(block_tokens) {}

  void allocate(std::int64_t num_blocks, std::int64_t block_tokens) override {
    block_tokens_ = block_tokens;
    rows_ = {};  // free the old storage first: both may not fit
    rows_ = ReservedMemory(static_cast<std::size_t>(num_blocks) * bytes_per_block());
    num_blocks_ = num_blocks;
  }
  void unload() override {
    rows_ = {};
    num_blocks_ = 0;
  }
  std::int64_t num_blocks() const override { return num_blocks_; }
  std::int64_t block_tokens() const override { return block_tokens_; }
  std::size_t bytes_per_block() const override {
    return static_cast<std::size_t>(block_tokens_) * row_bytes_;
  }
  std::byte* blocks() const override { return rows_.data(); }

  void copy_block(std::int64_t from, std::int64_t to) override {
    std::memcpy(block_data(to), block_data(from), bytes_per_block());
  }
  void save_block(std::int64_t block, std::span<std::byte> out) const override {
    GRAFT_CHECK(out.size() == bytes_per_block(), module_, ": output of ", out.size(),
                " bytes for a block of ", bytes_per_block());
    std::memcpy(out.data(), block_data(block), out.size());
  }
  void load_block(std::int64_t block, std::span<const std::byte> in) override {
    GRAFT_CHECK(in.size() == bytes_per_block(), module_, ": input of ", in.size(),
                " bytes for a block of ", bytes_per_block());
    std::memcpy(block_data(block), in.data(), in.size());
  }
  void release_blocks(std::int64_t first, std::int64_t count) override {
    rows_.release(static_cast<std::size_t>(first) * bytes_per_block(),
                  static_cast<std::size_t>(count) * bytes_per_block());
  }
  std::string form() const override {
    return str(name(dtype_), " ", params_.key_size, "+", params_.value_size);
  }

  void write(TensorView key, TensorView value, Pass& pass) override {
    const ProfileScope profile(pass, kCpu, module_);
    GRAFT_DCHECK(key.cols() == params_.key_size, module_, ": keys of ", key.cols());
    for (const SequenceSlice& sequence : pass.batch.unpadded_sequences()) {
      const std::int64_t num_items = (sequence.num_tokens + kKvRowsPerItem - 1) / kKvRowsPerItem;
      for_each_item(pass.pool, num_items, [&](std::int64_t /*worker*/, std::int64_t item) {
        const std::int64_t end = std::min(sequence.num_tokens, (item + 1) * kKvRowsPerItem);
        for (std::int64_t i = item * kKvRowsPerItem; i < end; ++i)
          write_row(sequence, i, key, value);
      });
    }
  }

  void read_keys(const SequenceSlice& sequence, const Part& part, float* out) const override {
    read(sequence, part, part.first_col, out);
  }
  void read_values(const SequenceSlice& sequence, const Part& part, float* out) const override {
    read(sequence, part, params_.key_size + part.first_col, out);
  }

  kernels::cpu::StoredAttention kernels() const override {
    return kernels::cpu::kernels().math.*attention_;
  }
  DType dtype() const override { return dtype_; }
  std::int64_t key_size() const override { return params_.key_size; }
  void row_pointers(const SequenceSlice& sequence,
                    std::int64_t begin,
                    std::int64_t end,
                    const std::byte** out) const override {
    for (std::int64_t position = begin; position < end;) {
      const std::int64_t block_end =
          std::min(end, position - position % block_tokens_ + block_tokens_);
      const std::byte* row = at(sequence, position);
      for (; position < block_end; ++position, row += row_bytes_)
        *out++ = row;
    }
  }

 private:
  // Token i of the sequence's tokens in this pass.
  void write_row(const SequenceSlice& sequence,
                 std::int64_t i,
                 TensorView key,
                 TensorView value) const {
    const auto encode = codec().encode;
    std::byte* to = at(sequence, sequence.context_len - sequence.num_tokens + i);
    encode(key.f32_row(sequence.first_row + i), to, static_cast<std::size_t>(params_.key_size));
    if (params_.value_size == 0) return;
    encode(value.f32_row(sequence.first_row + i), to + bytes_of(dtype_, params_.key_size),
           static_cast<std::size_t>(params_.value_size));
  }

  const quant::Codec& codec() const {
    return kernels::cpu::kernels().codecs[static_cast<std::size_t>(dtype_)];
  }

  std::byte* block_data(std::int64_t block) const {
    GRAFT_DCHECK(block >= 0 && block < num_blocks_, module_, ": block ", block, " of ",
                 num_blocks_);
    return rows_.data() + static_cast<std::size_t>(block) * bytes_per_block();
  }

  std::byte* at(const SequenceSlice& sequence, std::int64_t position) const {
    const auto entry = static_cast<std::size_t>(position / block_tokens_);
    GRAFT_DCHECK(entry < sequence.block_table.size(), module_, ": no block for position ",
                 position);
    return block_data(sequence.block_table[entry]) +
           static_cast<std::size_t>(position % block_tokens_) * row_bytes_;
  }

  void read(const SequenceSlice& sequence,
            const Part& part,
            std::int64_t first_col,
            float* out) const {
    const std::size_t offset = bytes_of(dtype_, first_col);
    if (decode_rows_ == nullptr) {
      read_quantized(sequence, part, offset, out);
      return;
    }
    const auto decode = kernels::cpu::kernels().math.*decode_rows_;
    for (std::int64_t position = part.begin; position < part.end;) {
      // One kernel call per cache block, whose rows have a constant stride.
      const std::int64_t end =
          std::min(part.end, position - position % block_tokens_ + block_tokens_);
      const std::int64_t next = position + part.end - part.begin;
      decode({.data = at(sequence, position) + offset,
              .rows = end - position,
              .cols = part.num_cols,
              .stride = static_cast<std::int64_t>(row_bytes_),
              .next = next < part.end + part.follow ? at(sequence, next) + offset : nullptr},
             out);
      out += (end - position) * part.num_cols;
      position = end;
    }
  }

  void read_quantized(const SequenceSlice& sequence,
                      const Part& part,
                      std::size_t offset,
                      float* out) const {
    const auto decode = codec().decode;
    for (std::int64_t position = part.begin; position < part.end; ++position) {
      decode(at(sequence, position) + offset, out, static_cast<std::size_t>(part.num_cols));
      out += part.num_cols;
    }
  }

  std::string module_;
  KvCacheParams params_;
  DType dtype_;
  kernels::cpu::StoredAttention kernels::cpu::MathTable::*attention_;
  DecodeRows kernels::cpu::MathTable::*decode_rows_;
  std::size_t row_bytes_;
  std::int64_t block_tokens_;
  std::int64_t num_blocks_ = 0;
  ReservedMemory rows_;  // [blocks, block_tokens, key_size + value_size] of dtype_
};

const CacheType& type_kwarg(const BuildContext& context) {
  const std::string word = context.word_kwarg(cache_type_kwarg());
  const std::optional<DType> dtype = cache_dtype(word);
  const auto found = std::ranges::find(kCacheTypes, dtype, &CacheType::dtype);
  GRAFT_CHECK(found != kCacheTypes.end(), "no cache type for the declared word ", word);
  return *found;
}

}  // namespace

std::unique_ptr<Operator> make_kv_cache_cpu(const BuildContext& context) {
  return std::make_unique<KvCacheCpu>(context.module, context.params_as<KvCacheParams>(),
                                      type_kwarg(context), context.int_kwarg(block_tokens_kwarg()));
}

}  // namespace graft::ops::cpu
