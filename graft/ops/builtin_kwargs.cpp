#include "graft/ops/builtin_kwargs.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "graft/base/text/str.h"
#include "graft/tensor/dtype.h"

namespace graft::ops {
namespace {

using Kind = Kwarg::Kind;

// Reads of a cache begin and end at multiples of the head size, which must be whole blocks of the
// type.
std::string cache_type_conflict(const Params& params, std::string_view value) {
  const auto* cache = std::get_if<KvCacheParams>(&params);
  const std::optional<DType> dtype = cache_dtype(value);
  if (cache == nullptr || !dtype) return {};
  const std::int64_t head = cache->head_size == 0 ? cache->key_size : cache->head_size;
  const std::int64_t block = info(*dtype).block_elems;
  if (head % block == 0) return {};
  return str("dtype ", value, " has blocks of ", block, " values, and the head size ", head,
             " is not a multiple");
}

Kwarg cache_type(std::vector<std::string> words) {
  return {.key = "dtype",
          .kind = Kind::Word,
          .words = std::move(words),
          .fallback = "f16",
          .conflict = cache_type_conflict};
}

std::string expert_count_conflict(const Params& params, std::string_view value) {
  const auto* experts = std::get_if<ExpertsParams>(&params);
  if (experts == nullptr) return {};
  const auto count = parse_count(gpu_experts_kwarg(), value, experts->num_experts);
  if (!count || *count <= experts->num_experts) return {};
  return str("gpu_experts is ", value, ", the module has ", experts->num_experts, " experts");
}

std::string deferred_count_conflict(const Params& params, std::string_view value) {
  const auto* experts = std::get_if<ExpertsParams>(&params);
  if (experts == nullptr) return {};
  const auto count = parse_integer(defer_kwarg(), value);
  if (!count || *count < experts->top_k) return {};
  return str("defer is ", value, ", a token has ", experts->top_k, " experts, and one must stay");
}

}  // namespace

const Kwarg& repack_kwarg() {
  static const Kwarg kwarg = {.key = "repack", .kind = Kind::Bool, .fallback = "true"};
  return kwarg;
}

const Kwarg& defer_kwarg() {
  static const Kwarg kwarg = {.key = "defer",
                              .kind = Kind::Integer,
                              .min = 0,
                              .max = 64,
                              .fallback = "0",
                              .conflict = deferred_count_conflict};
  return kwarg;
}

const Kwarg& absorb_kwarg() {
  static const Kwarg kwarg = {.key = "absorb", .kind = Kind::Bool, .fallback = "true"};
  return kwarg;
}

const Kwarg& absorb_for_prefill_kwarg() {
  static const Kwarg kwarg = {.key = "absorb_for_prefill", .kind = Kind::Bool};
  return kwarg;
}

std::optional<DType> cache_dtype(std::string_view word) {
  return word == "fp8" ? DType::F8_E4M3 : dtype_from_name(word);
}

const Kwarg& cache_type_kwarg() {
  static const Kwarg kwarg = cache_type({"f32", "f16", "bf16", "fp8", "q8_0", "q4_0"});
  return kwarg;
}

// The default: larger blocks make shorter block tables, smaller ones waste less of the last block
// of each sequence: at 16, half a block is under 1 % of a sequence of 1000 tokens. The range is
// that of kvcache_block_size (engine/config.cpp).
const Kwarg& block_tokens_kwarg() {
  static const Kwarg kwarg = {
      .key = "block_tokens", .kind = Kind::Integer, .min = 1, .max = 65536, .fallback = "16"};
  return kwarg;
}

// The default is the break-even of the machines it was measured on; with measured figures of a
// machine the program sets another one (perf::stream_break_even).
const Kwarg& stream_from_kwarg() {
  static const Kwarg kwarg = {
      .key = "stream_from", .kind = Kind::Integer, .min = 1, .max = 65536, .fallback = "256"};
  return kwarg;
}

const Kwarg& gpu_experts_kwarg() {
  static const Kwarg kwarg = {.key = "gpu_experts",
                              .kind = Kind::Count,
                              .min = 0,
                              .max = 65536,
                              .fallback = "0",
                              .conflict = expert_count_conflict};
  return kwarg;
}

const Kwarg& precision_kwarg() {
  static const Kwarg kwarg = {
      .key = "precision", .kind = Kind::Word, .words = {"fast", "f32"}, .fallback = "fast"};
  return kwarg;
}

}  // namespace graft::ops
