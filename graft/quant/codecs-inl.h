// All codecs, compiled for the instruction set of the including region: defines kAllCodecs in an
// anonymous namespace. Before the region include graft/quant/codec.h, blocks.h and iq_grids.h, and
// define GRAFT_VECTOR_BYTES.

#include "graft/quant/simd-inl.h"
// The order matters: later files use the earlier ones.
#include "graft/quant/search-inl.h"
//
#include "graft/quant/float-inl.h"
#include "graft/quant/fp4-inl.h"
#include "graft/quant/iq-inl.h"
#include "graft/quant/iq4-inl.h"
#include "graft/quant/kquant-inl.h"
#include "graft/quant/legacy-inl.h"
#include "graft/quant/lowbit-inl.h"

namespace {

struct CodecRow {
  DType type;
  quant::Codec codec;
};

// clang-format off
inline constexpr CodecRow kCodecRows[] = {
    {DType::F64,     {decode_number<double>, nullptr}},
    {DType::F32,     {decode_f32, encode_f32}},
    {DType::F16,     {decode_minifloat<std::uint16_t, 5, 10, true>,
                      encode_minifloat<std::uint16_t, 5, 10, true, false>}},
    {DType::BF16,    {decode_bf16, encode_bf16}},
    {DType::F8_E4M3, {decode_minifloat<std::uint8_t, 4, 3, false>,
                      encode_minifloat<std::uint8_t, 4, 3, false, true>}},
    {DType::F8_E5M2, {decode_minifloat<std::uint8_t, 5, 2, true>,
                      encode_minifloat<std::uint8_t, 5, 2, true, true>}},
    {DType::I64,     {decode_number<std::int64_t>, nullptr}},
    {DType::I32,     {decode_number<std::int32_t>, nullptr}},
    {DType::I16,     {decode_number<std::int16_t>, nullptr}},
    {DType::I8,      {decode_number<std::int8_t>, nullptr}},
    {DType::U64,     {decode_number<std::uint64_t>, nullptr}},
    {DType::U32,     {decode_number<std::uint32_t>, nullptr}},
    {DType::U16,     {decode_number<std::uint16_t>, nullptr}},
    {DType::U8,      {decode_number<std::uint8_t>, nullptr}},
    {DType::Bool,    {decode_bool, nullptr}},
    {DType::Q4_0,    {decode_q4_0, encode_q4_0}},
    {DType::Q4_1,    {decode_q4_1, encode_q4_1}},
    {DType::Q5_0,    {decode_q5_0, encode_q5_0}},
    {DType::Q5_1,    {decode_q5_1, encode_q5_1}},
    {DType::Q8_0,    {decode_q8<quant::BlockQ80>, encode_q8_0}},
    {DType::Q8_1,    {decode_q8<quant::BlockQ81>, encode_q8_1}},
    {DType::Q2_K,    {decode_q2_k, encode_q2_k}},
    {DType::Q3_K,    {decode_q3_k, encode_q3_k}},
    {DType::Q4_K,    {decode_q4_k, encode_q4_k}},
    {DType::Q5_K,    {decode_q5_k, encode_q5_k}},
    {DType::Q6_K,    {decode_q6_k, encode_q6_k}},
    {DType::Q8_K,    {decode_q8_k, encode_q8_k}},
    {DType::IQ1_S,   {decode_iq1_s, nullptr}},
    {DType::IQ1_M,   {decode_iq1_m, nullptr}},
    {DType::IQ2_XXS, {decode_iq2_xxs, nullptr}},
    {DType::IQ2_XS,  {decode_iq2_xs, nullptr}},
    {DType::IQ2_S,   {decode_iq2_s, nullptr}},
    {DType::IQ3_XXS, {decode_iq3_xxs, nullptr}},
    {DType::IQ3_S,   {decode_iq3_s, nullptr}},
    {DType::IQ4_NL,  {decode_iq4_nl, encode_iq4_nl}},
    {DType::IQ4_XS,  {decode_iq4_xs, encode_iq4_xs}},
    {DType::TQ1_0,   {decode_tq1_0, nullptr}},
    {DType::TQ2_0,   {decode_tq2_0, nullptr}},
    {DType::MXFP4,   {decode_mxfp4, encode_mxfp4}},
    {DType::NVFP4,   {decode_nvfp4, nullptr}},
    {DType::Q1_0,    {decode_q1_0, nullptr}},
    {DType::Q2_0,    {decode_q2_0, nullptr}},
};
// clang-format on

consteval quant::CodecTable make_codecs() {
  quant::CodecTable table{};
  for (const CodecRow& row : kCodecRows)
    table[static_cast<std::size_t>(row.type)] = row.codec;
  return table;
}

constexpr quant::CodecTable kAllCodecs = make_codecs();

}  // namespace

#undef GRAFT_INLINE
#undef GRAFT_NEON
#undef GRAFT_SCALAR
#undef GRAFT_VECTOR_BYTES
