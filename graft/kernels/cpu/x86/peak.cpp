#include "graft/kernels/cpu/peak.h"

#include <cstdint>

#include <immintrin.h>

#include "graft/kernels/cpu/isa/isa.h"
#include "graft/kernels/cpu/x86/tile_layout.h"

// Ten independent sums keep two ports with a latency of four or five cycles busy. They are
// variables because arrays would not stay in registers. An asm hides from the compiler that the
// factors are 1 and the sums equal, and prevents hoisting work out of the loop and register moves
// that lengthen every dependency chain. (a + b on __m256i adds 64-bit lanes; the 32-bit sums are
// too small to carry into their neighbours.)

namespace graft::kernels::cpu::scalar {
namespace {

[[gnu::always_inline]] inline double total(__m128 sum) {
  alignas(16) float values[4];
  _mm_store_ps(values, sum);
  double result = 0;
  for (const float value : values)
    result += value;
  return result;
}

[[gnu::always_inline]] inline void add_product(__m128& sum, __m128 one) {
  __asm__ volatile("" : "+x"(one));
  sum = _mm_add_ps(sum, _mm_mul_ps(one, one));
}

template <class... Sums>
[[gnu::always_inline]] inline void add(__m128 one, Sums&... sums) {
  (add_product(sums, one), ...);
}

double f32_products(std::int64_t rounds) {
  const __m128 one = _mm_set1_ps(1.0F);
  __m128 a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{}, i{}, j{};  // NOLINT
  for (std::int64_t round = 0; round < rounds; ++round)
    add(one, a, b, c, d, e, f, g, h, i, j);
  return total(a + b + c + d + e + f + g + h + i + j);
}

}  // namespace

constinit const PeakTable kPeak = {.f32_products = f32_products, .int8_products = nullptr};

}  // namespace graft::kernels::cpu::scalar

GRAFT_ISA_BEGIN(avx2)
namespace {

[[gnu::always_inline]] inline double total(__m256 sum) {
  alignas(32) float values[8];
  _mm256_store_ps(values, sum);
  double result = 0;
  for (const float value : values)
    result += value;
  return result;
}

[[gnu::always_inline]] inline void add_product(__m256& sum, __m256 one) {
  __asm__ volatile("vfmadd231ps %1, %1, %0" : "+x"(sum) : "x"(one));
}

template <class... Sums>
[[gnu::always_inline]] inline void add(__m256 one, Sums&... sums) {
  (add_product(sums, one), ...);
}

double f32_products(std::int64_t rounds) {
  const __m256 one = _mm256_set1_ps(1.0F);
  __m256 a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{}, i{}, j{};  // NOLINT
  for (std::int64_t round = 0; round < rounds; ++round)
    add(one, a, b, c, d, e, f, g, h, i, j);
  return total(a + b + c + d + e + f + g + h + i + j);
}

[[gnu::always_inline]] inline double total(__m256i sum) {
  alignas(32) std::int32_t values[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(values), sum);
  double result = 0;
  for (const std::int32_t value : values)
    result += value;
  return result;
}

// Without VNNI: int8 products with pairs summed to 16 bits, then pairs of those to 32 bits.
[[gnu::always_inline]] inline void add_product(__m256i& sum, __m256i one) {
  __asm__ volatile("" : "+x"(one));
  const __m256i pairs = _mm256_maddubs_epi16(one, one);
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

template <class... Sums>
[[gnu::always_inline]] inline void add(__m256i one, Sums&... sums) {
  (add_product(sums, one), ...);
}

double int8_products(std::int64_t rounds) {
  const __m256i one = _mm256_set1_epi8(1);
  __m256i a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{}, i{}, j{};  // NOLINT
  for (std::int64_t round = 0; round < rounds; ++round)
    add(one, a, b, c, d, e, f, g, h, i, j);
  return total(a + b + c + d + e + f + g + h + i + j);
}

}  // namespace

constinit const PeakTable kPeak = {.f32_products = f32_products, .int8_products = int8_products};

GRAFT_ISA_END

GRAFT_ISA_BEGIN(avx512)
namespace {

[[gnu::always_inline]] inline double total(__m512 sum) {
  alignas(64) float values[16];
  _mm512_store_ps(values, sum);
  double result = 0;
  for (const float value : values)
    result += value;
  return result;
}

[[gnu::always_inline]] inline void add_product(__m512& sum, __m512 one) {
  __asm__ volatile("vfmadd231ps %1, %1, %0" : "+v"(sum) : "v"(one));
}

template <class... Sums>
[[gnu::always_inline]] inline void add(__m512 one, Sums&... sums) {
  (add_product(sums, one), ...);
}

double f32_products(std::int64_t rounds) {
  const __m512 one = _mm512_set1_ps(1.0F);
  __m512 a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{}, i{}, j{};  // NOLINT
  for (std::int64_t round = 0; round < rounds; ++round)
    add(one, a, b, c, d, e, f, g, h, i, j);
  return total(a + b + c + d + e + f + g + h + i + j);
}

[[gnu::always_inline]] inline double total(__m512i sum) {
  alignas(64) std::int32_t values[16];
  _mm512_store_si512(values, sum);
  double result = 0;
  for (const std::int32_t value : values)
    result += value;
  return result;
}

[[gnu::always_inline]] inline void add_product(__m512i& sum, __m512i one) {
  __asm__ volatile("vpdpbusd %1, %1, %0" : "+v"(sum) : "v"(one));
}

template <class... Sums>
[[gnu::always_inline]] inline void add(__m512i one, Sums&... sums) {
  (add_product(sums, one), ...);
}

double int8_products(std::int64_t rounds) {
  const __m512i one = _mm512_set1_epi8(1);
  __m512i a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{}, i{}, j{};  // NOLINT
  for (std::int64_t round = 0; round < rounds; ++round)
    add(one, a, b, c, d, e, f, g, h, i, j);
  return total(a + b + c + d + e + f + g + h + i + j);
}

}  // namespace

constinit const PeakTable kPeak = {.f32_products = f32_products, .int8_products = int8_products};

GRAFT_ISA_END

GRAFT_ISA_BEGIN(amx)
namespace {

// Tiles 0..3 are sums, 4 and 5 the left operands, 6 and 7 the right: 16 x 16 sums of 64 products.
double int8_products(std::int64_t rounds) {
  TileLayout layout;
  for (int tile = 0; tile < 8; ++tile) {
    layout.rows[tile] = 16;
    layout.row_bytes[tile] = 64;
  }
  // The intrinsic of g++ 12 declares only the first bytes as its operand.
  __asm__ volatile("ldtilecfg %0" ::"m"(layout));
  alignas(64) std::uint8_t ones[16][64];
  __builtin_memset(ones, 1, sizeof(ones));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, ones, 64);
  _tile_loadd(5, ones, 64);
  _tile_loadd(6, ones, 64);
  _tile_loadd(7, ones, 64);
  for (std::int64_t round = 0; round < rounds; ++round) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  alignas(64) std::int32_t sums[4][16][16];
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
  _tile_stored(2, sums[2], 64);
  _tile_stored(3, sums[3], 64);
  _tile_release();
  double total = 0;
  for (const auto& tile : sums) {
    for (const auto& row : tile) {
      for (const std::int32_t sum : row)
        total += sum;
    }
  }
  return total;
}

}  // namespace

constinit const PeakTable kPeak = {.f32_products = avx512::f32_products,
                                   .int8_products = int8_products};

GRAFT_ISA_END
