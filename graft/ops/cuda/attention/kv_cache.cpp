#include "graft/ops/cuda/attention/kv_cache.h"

#include <optional>
#include <vector>

#include "graft/base/check.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cuda {
namespace {

DType cache_type(const BuildContext& context) {
  const std::string word = context.word_kwarg(cache_type_kwarg());
  const std::optional<DType> dtype = cache_dtype(word);
  GRAFT_CHECK(dtype && kernels::cuda::is_cache_type(*dtype),
              "no cache kernel for the declared word ", word);
  return *dtype;
}

}  // namespace

KvCacheCuda::KvCacheCuda(const BuildContext& context)
    : module_(context.module),
      params_(context.params_as<KvCacheParams>()),
      device_(context.device),
      dtype_(cache_type(context)),
      block_tokens_(context.int_kwarg(block_tokens_kwarg())) {}

void KvCacheCuda::allocate(std::int64_t num_blocks, std::int64_t block_tokens) {
  block_tokens_ = block_tokens;
  memory_ = {};  // free the old storage first: both may not fit
  memory_ = Buffer(static_cast<std::size_t>(num_blocks) * bytes_per_block(), device_);
  // Padding rows of a graph bucket read unwritten slots, which must not be NaN.
  clear_in_order(device_.index, memory_.data(), memory_.size());
  num_blocks_ = num_blocks;
}

void KvCacheCuda::unload() {
  memory_ = {};
  num_blocks_ = 0;
}

std::size_t KvCacheCuda::bytes_per_block() const {
  return static_cast<std::size_t>(block_tokens_) *
         bytes_of(dtype_, params_.key_size + params_.value_size);
}

std::byte* KvCacheCuda::block_data(std::int64_t block) const {
  GRAFT_DCHECK(block >= 0 && block < num_blocks_, module_, ": block ", block, " of ", num_blocks_);
  return memory_.data() + static_cast<std::size_t>(block) * bytes_per_block();
}

void KvCacheCuda::copy_block(std::int64_t from, std::int64_t to) {
  copy_in_order(device_.index, block_data(to), block_data(from), bytes_per_block(),
                cudaMemcpyDeviceToDevice);
}

void KvCacheCuda::save_block(std::int64_t block, std::span<std::byte> out) const {
  GRAFT_CHECK(out.size() == bytes_per_block(), module_, ": output of ", out.size(),
              " bytes for a block of ", bytes_per_block());
  copy_in_order(device_.index, out.data(), block_data(block), out.size(), cudaMemcpyDeviceToHost);
}

void KvCacheCuda::load_block(std::int64_t block, std::span<const std::byte> in) {
  GRAFT_CHECK(in.size() == bytes_per_block(), module_, ": input of ", in.size(),
              " bytes for a block of ", bytes_per_block());
  copy_in_order(device_.index, block_data(block), in.data(), in.size(), cudaMemcpyHostToDevice);
}

std::string KvCacheCuda::form() const {
  // Rows of types with blocks are not those of the CPU (cache_types.cuh).
  const bool has_blocks = info(dtype_).block_elems > 1;
  return str(name(dtype_), has_blocks ? " split " : " ", params_.key_size, "+", params_.value_size);
}

kernels::cuda::CacheRows KvCacheCuda::rows() const {
  return {.dtype = dtype_,
          .data = memory_.data(),
          .key_size = params_.key_size,
          .value_size = params_.value_size};
}

void KvCacheCuda::write(TensorView key, TensorView value, Pass& pass) {
  CudaContext& gpu = cuda_context(device_, pass);
  const ProfileScope profile(pass, device_, module_);
  const kernels::cuda::Rows values =
      params_.value_size == 0 ? kernels::cuda::Rows{} : rows_of(value);
  kernels::cuda::write_cache(rows(), rows_of(key), values, gpu.slots(block_tokens_), key.rows(),
                             gpu.stream());
}

void KvCacheCuda::read_keys(const SequenceSlice& sequence, const Part& part, float* out) const {
  read(sequence, part, part.first_col, out);
}

void KvCacheCuda::read_values(const SequenceSlice& sequence, const Part& part, float* out) const {
  read(sequence, part, params_.key_size + part.first_col, out);
}

void KvCacheCuda::read(const SequenceSlice& sequence,
                       const Part& part,
                       std::int64_t first,
                       float* out) const {
  const std::int64_t cols = params_.key_size + params_.value_size;
  std::vector<std::byte> stored(bytes_of(dtype_, cols));
  for (std::int64_t position = part.begin; position < part.end; ++position) {
    const auto entry = static_cast<std::size_t>(position / block_tokens_);
    const std::byte* row = block_data(sequence.block_table[entry]) +
                           static_cast<std::size_t>(position % block_tokens_) * stored.size();
    copy_in_order(device_.index, stored.data(), row, stored.size(), cudaMemcpyDeviceToHost);
    kernels::cuda::decode_cache_row(dtype_, cols, stored.data(), first,
                                    {out, static_cast<std::size_t>(part.num_cols)});
    out += part.num_cols;
  }
}

std::unique_ptr<Operator> make_kv_cache_cuda(const BuildContext& context) {
  return std::make_unique<KvCacheCuda>(context);
}

}  // namespace graft::ops::cuda
