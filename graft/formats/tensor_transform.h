// Conversion of a tensor between its Hugging Face form and its GGUF form. Loading converts either
// form to the weight of a module, `graft convert` converts Hugging Face to GGUF; both use the index
// arithmetic of this file. Whole rows are moved, so quantized rows are not decoded, except for
// KvBKey, which transposes.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graft/formats/weight_source.h"

namespace graft::formats {

enum class TensorTransform : std::uint8_t {
  Same,
  // q_proj and k_proj of the Llama family. Hugging Face rotates the halves (i, i + d/2) of a head,
  // llama.cpp the neighbours (2i, 2i + 1): the rows of each head are interleaved.
  RopePairs,
  // Hugging Face has one tensor [rows, cols] per expert, GGUF all of them in one [experts, rows,
  // cols].
  Expert,
  // One half of the rows of a fused tensor [2 * rows, cols], or of each expert of [experts,
  // 2 * rows, cols]: gate_proj is the first half of gate_up_proj, up_proj the second.
  FirstHalf,
  SecondHalf,
  // Norms of Gemma: Hugging Face stores the difference to 1, GGUF the factor itself.
  PlusOne,
  // The rows of q, k or v in a fused qkv_proj [(heads + 2 * kv_heads) * head_dim, cols].
  QkvQuery,
  QkvKey,
  QkvValue,
  // attn_k_b [heads, kv_lora_rank, qk_nope_head_dim]: the key rows of each head of kv_b_proj
  // [heads * (qk_nope_head_dim + v_head_dim), kv_lora_rank], transposed.
  KvBKey,
  // attn_v_b [heads, v_head_dim, kv_lora_rank]: the value rows of each head of kv_b_proj.
  KvBValue,
  // Experts of GPT-OSS, whose gate and up alternate, and of Llama 4
  // (graft/models/weights/expert_layout.h). Each expert transposed: all columns, the even or the
  // odd ones.
  Transposed,
  TransposedEven,
  TransposedOdd,
  // The first or the second half of the columns, of Llama 4.
  TransposedFirst,
  TransposedSecond,
  // Rows of MXFP4 codes, whose scales are another tensor: all, the even or the odd ones.
  Mxfp4,
  Mxfp4Even,
  Mxfp4Odd,
  // Every second value of each expert's bias.
  EvenValues,
  OddValues,
  // Gated delta-rule layers (delta_heads.h). A_log: GGUF and the operators have -exp(A_log).
  NegExp,
  // Qwen3-Next fuses q, k, v and z of each key head, and b and a: the rows of all q, k and v, of z,
  // of b, of a.
  QkvzQkv,
  QkvzZ,
  BaB,
  BaA,
  // Qwen3.5, whose GGUF files order value heads otherwise: the value rows of in_proj_qkv and
  // conv1d, rows of z, one row or value per head, the same with NegExp, the columns of out_proj.
  TiledQkv,
  TiledValues,
  TiledHeads,
  TiledNegExp,
  TiledColumns,
};

constexpr bool is_split_by_key_head(TensorTransform transform) {
  return transform == TensorTransform::QkvzQkv || transform == TensorTransform::QkvzZ ||
         transform == TensorTransform::BaB || transform == TensorTransform::BaA;
}

constexpr bool is_tiled(TensorTransform transform) {
  return transform == TensorTransform::TiledQkv || transform == TensorTransform::TiledValues ||
         transform == TensorTransform::TiledHeads || transform == TensorTransform::TiledNegExp ||
         transform == TensorTransform::TiledColumns;
}

constexpr bool is_half(TensorTransform transform) {
  return transform == TensorTransform::FirstHalf || transform == TensorTransform::SecondHalf;
}

constexpr bool is_part_of_qkv(TensorTransform transform) {
  return transform == TensorTransform::QkvQuery || transform == TensorTransform::QkvKey ||
         transform == TensorTransform::QkvValue;
}

constexpr bool is_mxfp4(TensorTransform transform) {
  return transform == TensorTransform::Mxfp4 || transform == TensorTransform::Mxfp4Even ||
         transform == TensorTransform::Mxfp4Odd;
}

constexpr bool is_transposed(TensorTransform transform) {
  return transform == TensorTransform::Transposed || transform == TensorTransform::TransposedEven ||
         transform == TensorTransform::TransposedOdd ||
         transform == TensorTransform::TransposedFirst ||
         transform == TensorTransform::TransposedSecond;
}

// RopePairs: the Hugging Face row that becomes GGUF row `row`, and the other way around.
constexpr std::int64_t rope_halves_row(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t in_head = row % head_dim;
  return row - in_head + in_head / 2 + in_head % 2 * (head_dim / 2);
}
constexpr std::int64_t rope_pairs_row(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t half = head_dim / 2;
  const std::int64_t in_head = row % head_dim;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

// FirstHalf, SecondHalf: the row of the fused tensor that becomes row `row` of a tensor whose
// slices (experts) have `slice_rows` rows.
constexpr std::int64_t fused_row(TensorTransform half, std::int64_t row, std::int64_t slice_rows) {
  const std::int64_t slice = row / slice_rows;
  const std::int64_t offset = half == TensorTransform::SecondHalf ? slice_rows : 0;
  return slice * 2 * slice_rows + offset + row % slice_rows;
}

// kv_b_proj [heads * (key_dim + value_dim), rank]: each head has its key rows, then its value rows.
struct KvBShape {
  std::int64_t heads = 0;
  std::int64_t key_dim = 0;    // qk_nope_head_dim
  std::int64_t value_dim = 0;  // v_head_dim
  std::int64_t rank = 0;       // kv_lora_rank

  std::int64_t rows() const { return heads * (key_dim + value_dim); }
  std::int64_t key_row(std::int64_t head) const { return head * (key_dim + value_dim); }
  std::int64_t value_row(std::int64_t head) const { return key_row(head) + key_dim; }
};

// out[cols, rows] = in[rows, cols]
void transpose(const float* in, std::int64_t rows, std::int64_t cols, float* out);

// The part of a tensor that holds one expert, one half of the rows, or one half of one expert.
struct TensorSlice {
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

// `expert` -1: the tensor is not merged from experts. Otherwise has_expert() must be true.
TensorSlice slice_of(const TensorInfo& tensor, TensorTransform transform, std::int64_t expert);

// Rows [first, first + count) of a tensor whose first dimension has that many.
TensorSlice slice_of_rows(const TensorInfo& tensor, std::int64_t first, std::int64_t count);

// Whether a merged tensor [experts, …] contains this expert.
bool has_expert(const TensorInfo& tensor, std::int64_t expert);

}  // namespace graft::formats
