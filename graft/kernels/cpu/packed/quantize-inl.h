// Quantizes rows of x (layout in packed.h). See graft/quant/simd-inl.h for the rules of these
// files: included by packed-inl.h, after unpack-inl.h.

namespace {

// Blocks of x whose largest magnitude is below this quantize to zeros: 127 / max could overflow.
inline constexpr float kMinBlockMax = 1e-30F;

// Rounds sixteen values to int8, ties to even; returns their sum.
GRAFT_INLINE std::int32_t store_int8(std::byte* to, F32x16 values) {
#if GRAFT_VECTOR_BYTES == 64
  const __m512i integer = _mm512_maskz_cvtps_epi32(0xffff, values.v);
  const __m128i bytes = _mm512_maskz_cvtsepi32_epi8(0xffff, integer);
  __builtin_memcpy(to, &bytes, sizeof(bytes));
  typedef std::int32_t I32x4 __attribute__((vector_size(16)));  // NOLINT
  const auto sums = reinterpret_cast<I32x4>(_mm_dpbusd_epi32(__m128i{}, _mm_set1_epi8(1), bytes));
  return sums[0] + sums[1] + (sums[2] + sums[3]);
#elif GRAFT_NEON
  const int16x8_t low = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(values.low.low.v)),
                                     vmovn_s32(vcvtnq_s32_f32(values.low.high.v)));
  const int16x8_t high = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(values.high.low.v)),
                                      vmovn_s32(vcvtnq_s32_f32(values.high.high.v)));
  const int8x16_t bytes = vcombine_s8(vmovn_s16(low), vmovn_s16(high));
  __builtin_memcpy(to, &bytes, sizeof(bytes));
  return vaddvq_s16(vaddq_s16(low, high));
#else
  float integers[kLanes];
  store(integers, round_even(values));
  std::int32_t sum = 0;
  for (int i = 0; i < kLanes; ++i) {
    const auto integer = static_cast<std::int32_t>(integers[i]);
    to[i] = static_cast<std::byte>(integer);
    sum += integer;
  }
  return sum;
#endif
}

GRAFT_INLINE bool are_finite(F32x16 a, F32x16 b) {
  const F32x16 infinity = __builtin_inff();
  return bits_of((vabs(a) < infinity) & (vabs(b) < infinity)) == 0xffff;
}

template <DType kType>
void quantize_rows(const float* const* rows,
                   std::int64_t num_rows,
                   std::int64_t cols,
                   std::byte* quantized) {
  constexpr PackedFormat kFormat = packed_format(kType);
  constexpr int kGroups = kBlockGroups<kFormat>;
  constexpr int kOffset = kCodesSigned<kFormat> ? 0 : kFormat.offset;
  for (std::int64_t c = 0; c < cols; c += kBlockCols) {
    std::byte* scales = quantized + kBlockCols * num_rows;
    std::byte* corrections = scales + 4 * num_rows;
    for (std::int64_t row = 0; row < num_rows; ++row) {
      F32x16 low = load(rows[row] + c);
      F32x16 high = load(rows[row] + c + kLanes);
      float largest = max_lane(vmax(vabs(low), vabs(high)));
      bool is_zero = largest < kMinBlockMax;
      float scale = is_zero ? 0.0F : largest / 127.0F;
      if (!are_finite(low, high)) {  // NaN or infinity in x: the result becomes NaN
        low = high = 0.0F;
        is_zero = true;
        scale = __builtin_nanf("");
      }
      const float inverse_scale = is_zero ? 0.0F : 127.0F / largest;
      std::int32_t sums[2];
      sums[0] = store_int8(quantized + kBlockCols * row, low * F32x16(inverse_scale));
      sums[1] = store_int8(quantized + kBlockCols * row + kLanes, high * F32x16(inverse_scale));
      __builtin_memcpy(scales + 4 * row, &scale, sizeof(scale));
      for (int g = 0; g < kGroups; ++g) {
        const std::int32_t sum = kGroups == 2 ? sums[g] : sums[0] + sums[1];
        const std::int32_t start = -kOffset * sum;
        const float scaled = -scale * static_cast<float>(sum);
        std::byte* correction = corrections + 4 * (g * num_rows + row);
        if constexpr (kFormat.has_min) {
          __builtin_memcpy(correction, &scaled, sizeof(scaled));
        } else {
          __builtin_memcpy(correction, &start, sizeof(start));
        }
      }
    }
    quantized = corrections + 4 * kGroups * num_rows;
  }
}

}  // namespace
