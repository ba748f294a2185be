// Products of quantized weights with rows of floats, in whole numbers. Weights are rearranged once
// into panels of 16 rows in the order the kernels read them; rows of x are rounded to bytes with a
// scale per 32 values. A dot product over a group is exact, and the groups of an output are added
// in ascending order, one fused multiply-add each: one row or many, vectors or tiles, AVX2 or
// AVX-512 give the same bits. (The scalar level has no fused multiply-add; its last bits differ.)
// Floats of 8 and 16 bits have panels where there are tiles of bf16: see packed-bf16-inl.h.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "graft/kernels/cpu/math.h"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cpu {

// How the packed form of a type stores a value: scale * (code - offset), or scale * code - min.
struct PackedFormat {
  enum class Scale : std::uint8_t {
    F16,      // one per 32 values; so is the min
    E8M0,     // one power of two per 32 values
    Super,    // a signed byte per group, times an f16 per 256 values; so is the min
    Nibbles,  // the same, scale and min being the nibbles of one byte
    F32,      // one per 128 values, beside the matrix in its file
    None,
  };
  // What codes stand for before the offset is taken away.
  enum class Codes : std::uint8_t { Themselves, Iq4, Fp4 };

  int bits = 0;    // of a code: 2, 3, 4, 5, 6, 8 or 16
  int group = 32;  // values that share a scale: 16 or 32
  Scale scale = Scale::F16;
  bool has_min = false;
  int offset = 0;
  Codes codes = Codes::Themselves;
  bool as_bf16 = false;  // floats: both factors of a product are taken as bf16
};

struct PackedType {
  DType dtype;
  PackedFormat format;
};

// The types that have a packed form, on some level: whoever packs looks whether there is a kernel.
inline constexpr std::array kPackedTypes = {
    PackedType{DType::Q4_0, {.bits = 4, .offset = 8}},
    PackedType{DType::Q4_1, {.bits = 4, .has_min = true}},
    PackedType{DType::Q5_0, {.bits = 5, .offset = 16}},
    PackedType{DType::Q5_1, {.bits = 5, .has_min = true}},
    PackedType{DType::Q8_0, {.bits = 8, .offset = 128}},
    PackedType{DType::Q2_K,
               {.bits = 2, .group = 16, .scale = PackedFormat::Scale::Nibbles, .has_min = true}},
    PackedType{DType::Q3_K,
               {.bits = 3, .group = 16, .scale = PackedFormat::Scale::Super, .offset = 4}},
    PackedType{DType::Q4_K, {.bits = 4, .scale = PackedFormat::Scale::Super, .has_min = true}},
    PackedType{DType::Q5_K, {.bits = 5, .scale = PackedFormat::Scale::Super, .has_min = true}},
    PackedType{DType::Q6_K,
               {.bits = 6, .group = 16, .scale = PackedFormat::Scale::Super, .offset = 32}},
    PackedType{DType::IQ4_NL, {.bits = 4, .offset = 128, .codes = PackedFormat::Codes::Iq4}},
    PackedType{DType::IQ4_XS,
               {.bits = 4,
                .scale = PackedFormat::Scale::Super,
                .offset = 128,
                .codes = PackedFormat::Codes::Iq4}},
    PackedType{DType::MXFP4,
               {.bits = 4,
                .scale = PackedFormat::Scale::E8M0,
                .offset = 16,
                .codes = PackedFormat::Codes::Fp4}},
    PackedType{DType::BF16, {.bits = 16, .scale = PackedFormat::Scale::None, .as_bf16 = true}},
    PackedType{DType::F16, {.bits = 16, .scale = PackedFormat::Scale::None, .as_bf16 = true}},
    PackedType{DType::F8_E4M3, {.bits = 8, .scale = PackedFormat::Scale::F32, .as_bf16 = true}},
    PackedType{DType::F8_E5M2, {.bits = 8, .scale = PackedFormat::Scale::F32, .as_bf16 = true}},
};

// bits 0 where a type has no packed form.
constexpr PackedFormat packed_format(DType type) {
  for (const PackedType& row : kPackedTypes) {
    if (row.dtype == type) return row.format;
  }
  return {};
}

constexpr bool has_packed_form(DType type) {
  return packed_format(type).bits != 0;
}

inline constexpr std::int64_t kPanelRows = 16;
inline constexpr std::int64_t kRunElems = 32;  // values of x that share a scale: a run

// A panel is a series of chunks: of one run, of 256 values where scales have an f16 in common, or
// of 128 that share an f32. A chunk holds, each for the 16 rows side by side: the f16s (or
// exponents, or f32s), the bytes of scales, then those of mins; then the codes of its runs, bit
// planes one after the other, four codes of a row together. Floats: two of a row together.
constexpr bool has_chunks_of_256(PackedFormat f) {
  return f.scale == PackedFormat::Scale::Super || f.scale == PackedFormat::Scale::Nibbles;
}

constexpr std::int64_t chunk_elems(PackedFormat f) {
  if (f.scale == PackedFormat::Scale::F32) return 128;
  return has_chunks_of_256(f) ? 256 : kRunElems;
}

constexpr std::int64_t chunk_header_bytes(PackedFormat f) {
  if (f.scale == PackedFormat::Scale::None) return 0;
  if (f.scale == PackedFormat::Scale::F32) return kPanelRows * std::int64_t{sizeof(float)};
  const int both = f.has_min ? 2 : 1;
  const int per_chunk = f.scale == PackedFormat::Scale::E8M0 ? 1 : 2 * both;
  const int per_group = f.scale == PackedFormat::Scale::Nibbles ? 1 : both;
  const int num_groups = has_chunks_of_256(f) ? 256 / f.group : 0;
  return kPanelRows * (per_chunk + num_groups * per_group);
}

constexpr std::int64_t run_bytes(PackedFormat f) {
  return kPanelRows * kRunElems * f.bits / 8;
}

constexpr std::int64_t chunk_bytes(PackedFormat f) {
  return chunk_header_bytes(f) + chunk_elems(f) / kRunElems * run_bytes(f);
}

constexpr std::int64_t panel_bytes(PackedFormat f, std::int64_t cols) {
  return cols / chunk_elems(f) * chunk_bytes(f);
}

// The number of this layout, for panels that are kept in files: another one whenever pack_panel
// writes other bytes (packed_test.cpp notices). Neither threads nor instruction sets change them.
inline constexpr std::uint32_t kPackedLayout = 1;

// Packs up to 16 rows as a file stores them; the others become zeros. `type` has a packed form,
// cols are whole chunks of it. FP8 rows without scales have scales of 1.
void pack_panel(DType type, const StoredRows& rows, std::byte* panel);

// Rows of x for a format: tiles of `tile_rows` rows (the last has the rest), each a series of runs:
// the bytes of its rows, their scales, then a number per row and group: what the sums start with
// (an int: minus offset times sum) or, for formats with a min, minus the sum of the rounded values.
// Where products are of bf16, nothing but those.
constexpr std::int64_t rounded_row_bytes(PackedFormat f, std::int64_t cols) {
  if (f.as_bf16) return 2 * cols;
  return cols / kRunElems * (kRunElems + 4 + 4 * (kRunElems / f.group));
}

struct PackedKernel {
  // `num_rows` rows of x, at most a tile, rounded for this format.
  void (*round)(const float* const* rows,
                std::int64_t num_rows,
                std::int64_t cols,
                std::byte* rounded) = nullptr;
  // y[r * ldy + c] = row r of x times row c of the panels, for num_rows <= kMaxRows rounded rows
  // and num_outputs rows of weights (the last panel may have fewer than 16).
  void (*multiply)(const std::byte* panels,
                   std::int64_t num_outputs,
                   std::int64_t cols,
                   const std::byte* rounded,
                   std::int64_t num_rows,
                   float* y,
                   std::int64_t ldy) = nullptr;
};

// Rows that one call of multiply takes: weights are unpacked once for that many.
inline constexpr std::int64_t kMaxRows = 96;

struct PackedTable {
  std::int64_t tile_rows = 0;                         // divides kMaxRows
  std::array<PackedKernel, kNumDTypes> kernels = {};  // null: the level has none for the type
};

// Call only what the processor can run; table.h chooses.
namespace scalar {
extern const PackedTable kPacked;
}  // namespace scalar

namespace avx2 {
extern const PackedTable kPacked;
}  // namespace avx2

namespace avx512 {
extern const PackedTable kPacked;
// The same bits, for processors that unpack codes beside the products: AMD's multiply on two of
// their four vector units and shift on the other two, while Intel's share two for everything.
extern const PackedTable kPackedInPlace;
}  // namespace avx512

namespace amx {
extern const PackedTable kPacked;
}  // namespace amx

}  // namespace graft::kernels::cpu
