// Element types with their names and block sizes. Code that depends on the type reads this table;
// nothing switches on DType.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace graft {

// clang-format off
enum class DType : std::uint8_t {
  F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, I16, I8, U64, U32, U16, U8, Bool,
  Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1,
  Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K,
  IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ4_NL, IQ4_XS,
  TQ1_0, TQ2_0, MXFP4, NVFP4, Q1_0, Q2_0,
};
// clang-format on

struct DTypeInfo {
  DType type;
  std::string_view name;         // GGUF spelling; accepted on the command line
  std::string_view safetensors;  // name in a safetensors header, empty: not storable there
  int ggml_id;                   // type id in a GGUF file, -1: not storable there
  int block_elems;               // values per block, 1 for plain types
  int block_bytes;
};

// clang-format off
inline constexpr std::array kDTypes = {
    DTypeInfo{DType::F64,     "F64",     "F64",     28,   1,   8},
    DTypeInfo{DType::F32,     "F32",     "F32",      0,   1,   4},
    DTypeInfo{DType::F16,     "F16",     "F16",      1,   1,   2},
    DTypeInfo{DType::BF16,    "BF16",    "BF16",    30,   1,   2},
    DTypeInfo{DType::F8_E4M3, "F8_E4M3", "F8_E4M3", -1,   1,   1},
    DTypeInfo{DType::F8_E5M2, "F8_E5M2", "F8_E5M2", -1,   1,   1},
    DTypeInfo{DType::I64,     "I64",     "I64",     27,   1,   8},
    DTypeInfo{DType::I32,     "I32",     "I32",     26,   1,   4},
    DTypeInfo{DType::I16,     "I16",     "I16",     25,   1,   2},
    DTypeInfo{DType::I8,      "I8",      "I8",      24,   1,   1},
    DTypeInfo{DType::U64,     "U64",     "U64",     -1,   1,   8},
    DTypeInfo{DType::U32,     "U32",     "U32",     -1,   1,   4},
    DTypeInfo{DType::U16,     "U16",     "U16",     -1,   1,   2},
    DTypeInfo{DType::U8,      "U8",      "U8",      -1,   1,   1},
    DTypeInfo{DType::Bool,    "BOOL",    "BOOL",    -1,   1,   1},
    DTypeInfo{DType::Q4_0,    "Q4_0",    "",         2,  32,  18},
    DTypeInfo{DType::Q4_1,    "Q4_1",    "",         3,  32,  20},
    DTypeInfo{DType::Q5_0,    "Q5_0",    "",         6,  32,  22},
    DTypeInfo{DType::Q5_1,    "Q5_1",    "",         7,  32,  24},
    DTypeInfo{DType::Q8_0,    "Q8_0",    "",         8,  32,  34},
    DTypeInfo{DType::Q8_1,    "Q8_1",    "",         9,  32,  36},
    DTypeInfo{DType::Q2_K,    "Q2_K",    "",        10, 256,  84},
    DTypeInfo{DType::Q3_K,    "Q3_K",    "",        11, 256, 110},
    DTypeInfo{DType::Q4_K,    "Q4_K",    "",        12, 256, 144},
    DTypeInfo{DType::Q5_K,    "Q5_K",    "",        13, 256, 176},
    DTypeInfo{DType::Q6_K,    "Q6_K",    "",        14, 256, 210},
    DTypeInfo{DType::Q8_K,    "Q8_K",    "",        15, 256, 292},
    DTypeInfo{DType::IQ1_S,   "IQ1_S",   "",        19, 256,  50},
    DTypeInfo{DType::IQ1_M,   "IQ1_M",   "",        29, 256,  56},
    DTypeInfo{DType::IQ2_XXS, "IQ2_XXS", "",        16, 256,  66},
    DTypeInfo{DType::IQ2_XS,  "IQ2_XS",  "",        17, 256,  74},
    DTypeInfo{DType::IQ2_S,   "IQ2_S",   "",        22, 256,  82},
    DTypeInfo{DType::IQ3_XXS, "IQ3_XXS", "",        18, 256,  98},
    DTypeInfo{DType::IQ3_S,   "IQ3_S",   "",        21, 256, 110},
    DTypeInfo{DType::IQ4_NL,  "IQ4_NL",  "",        20,  32,  18},
    DTypeInfo{DType::IQ4_XS,  "IQ4_XS",  "",        23, 256, 136},
    DTypeInfo{DType::TQ1_0,   "TQ1_0",   "",        34, 256,  54},
    DTypeInfo{DType::TQ2_0,   "TQ2_0",   "",        35, 256,  66},
    DTypeInfo{DType::MXFP4,   "MXFP4",   "",        39,  32,  17},
    DTypeInfo{DType::NVFP4,   "NVFP4",   "",        40,  64,  36},
    DTypeInfo{DType::Q1_0,    "Q1_0",    "",        41, 128,  18},
    DTypeInfo{DType::Q2_0,    "Q2_0",    "",        42,  64,  18},
};
// clang-format on

inline constexpr std::size_t kNumDTypes = kDTypes.size();

constexpr const DTypeInfo& info(DType type) {
  return kDTypes[static_cast<std::size_t>(type)];
}

// The table is indexed by the enum, so the rows must be in enum order.
static_assert([] {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (static_cast<std::size_t>(kDTypes[i].type) != i) return false;
  }
  return true;
}());

constexpr std::string_view name(DType type) {
  return info(type).name;
}

constexpr bool is_quantized(DType type) {
  return info(type).block_elems > 1;
}

// Bytes of `elems` values; `elems` is a multiple of the block size.
constexpr std::size_t bytes_of(DType type, std::int64_t elems) {
  return static_cast<std::size_t>(elems / info(type).block_elems) *
         static_cast<std::size_t>(info(type).block_bytes);
}

// Each returns nullopt for a name or id that is not in the table. dtype_from_name ignores case.
std::optional<DType> dtype_from_name(std::string_view name);
std::optional<DType> dtype_from_ggml(std::uint32_t ggml_id);
std::optional<DType> dtype_from_safetensors(std::string_view name);

}  // namespace graft
