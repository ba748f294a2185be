// Float and integer types to and from float. See simd-inl.h for the rules of these files.
// Encoding: F16 overflows to infinity as in IEEE 754; the F8 types saturate at their largest finite
// value (E4M3 also for infinity, which it lacks). NaN stays NaN.

namespace {

template <class T>
void decode_number(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    T value;
    __builtin_memcpy(&value, in + i * sizeof(T), sizeof(T));
    out[i] = static_cast<float>(value);
  }
}

void decode_bool(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = in[i] != std::byte{0} ? 1.0F : 0.0F;
  }
}

void decode_f32(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  __builtin_memcpy(out, in, n * sizeof(float));
}

void encode_f32(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  __builtin_memcpy(out, in, n * sizeof(float));
}

void decode_bf16(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t code = 0;
    __builtin_memcpy(&code, in + i * sizeof(code), sizeof(code));
    out[i] = as_float(static_cast<std::uint32_t>(code) << 16);
  }
}

void encode_bf16(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = as_bits(in[i]);
    const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const std::uint32_t quiet = bits >> 16 | 0x40;
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    const auto code = static_cast<std::uint16_t>(is_nan ? quiet : rounded);
    __builtin_memcpy(out + i * sizeof(code), &code, sizeof(code));
  }
}

template <class Code, int kExp, int kMan, bool kHasInf>
void decode_minifloat(const std::byte* __restrict in, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    Code code;
    __builtin_memcpy(&code, in + i * sizeof(code), sizeof(code));
    out[i] = from_minifloat<kExp, kMan, kHasInf>(code);
  }
}

template <class Code, int kExp, int kMan, bool kHasInf, bool kSaturate>
void encode_minifloat(const float* __restrict in, std::byte* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto code = static_cast<Code>(to_minifloat<kExp, kMan, kHasInf, kSaturate>(in[i]));
    __builtin_memcpy(out + i * sizeof(code), &code, sizeof(code));
  }
}

}  // namespace
