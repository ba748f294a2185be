#include "graft/kernels/cpu/peak.h"

#include <cstdint>

#include <immintrin.h>

#include "graft/kernels/cpu/isa.h"

// Two ports with a latency of four or five cycles are kept busy by ten sums that do not wait for
// each other. The compiler may neither know that factors are 1 nor move work out of a loop: an
// empty asm says that a register may have changed.
#define GRAFT_UNKNOWN(value) __asm__ volatile("" : "+v"(value))
#define GRAFT_UNKNOWN_SSE(value) __asm__ volatile("" : "+x"(value))

namespace graft::cpu::scalar {
namespace {

double add_float_products(std::int64_t rounds) {
  __m128 one = _mm_set1_ps(1.0F);
  __m128 sums[10] = {};
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 10
    for (__m128& sum : sums) {
      GRAFT_UNKNOWN_SSE(one);
      sum = _mm_add_ps(sum, _mm_mul_ps(one, one));
    }
  }
  double total = 0;
  for (const __m128& sum : sums) {
    alignas(16) float lanes[4];
    _mm_store_ps(lanes, sum);
    for (const float lane : lanes)
      total += lane;
  }
  return total;
}

}  // namespace

constinit const PeakTable kPeak = {.add_float_products = add_float_products,
                                   .add_byte_products = nullptr};

}  // namespace graft::cpu::scalar

GRAFT_ISA_BEGIN(avx2)
namespace {

double add_float_products(std::int64_t rounds) {
  __m256 one = _mm256_set1_ps(1.0F);
  GRAFT_UNKNOWN_SSE(one);
  __m256 sums[10] = {};
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 10
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(one, one, sum);
      GRAFT_UNKNOWN_SSE(sum);
    }
  }
  double total = 0;
  for (const __m256& sum : sums) {
    alignas(32) float lanes[8];
    _mm256_store_ps(lanes, sum);
    for (const float lane : lanes)
      total += lane;
  }
  return total;
}

// Without VNNI: products of bytes in pairs, pairs of those, the sum.
double add_byte_products(std::int64_t rounds) {
  __m256i ones = _mm256_set1_epi8(1);
  const __m256i pairs = _mm256_set1_epi16(1);
  __m256i sums[10] = {};
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 10
    for (__m256i& sum : sums) {
      GRAFT_UNKNOWN_SSE(ones);
      const __m256i products = _mm256_madd_epi16(_mm256_maddubs_epi16(ones, ones), pairs);
      sum = _mm256_add_epi32(sum, products);
    }
  }
  double total = 0;
  for (const __m256i& sum : sums) {
    alignas(32) std::int32_t lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), sum);
    for (const std::int32_t lane : lanes)
      total += lane;
  }
  return total;
}

}  // namespace

constinit const PeakTable kPeak = {.add_float_products = add_float_products,
                                   .add_byte_products = add_byte_products};

GRAFT_ISA_END

GRAFT_ISA_BEGIN(avx512)
namespace {

double add_float_products(std::int64_t rounds) {
  __m512 one = _mm512_set1_ps(1.0F);
  GRAFT_UNKNOWN(one);
  __m512 sums[10] = {};
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 10
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(one, one, sum);
      GRAFT_UNKNOWN(sum);
    }
  }
  double total = 0;
  for (const __m512& sum : sums) {
    alignas(64) float lanes[16];
    _mm512_store_ps(lanes, sum);
    for (const float lane : lanes)
      total += lane;
  }
  return total;
}

double add_byte_products(std::int64_t rounds) {
  __m512i ones = _mm512_set1_epi8(1);
  GRAFT_UNKNOWN(ones);
  __m512i sums[10] = {};
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 10
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, ones, ones);
      GRAFT_UNKNOWN(sum);
    }
  }
  double total = 0;
  for (const __m512i& sum : sums) {
    alignas(64) std::int32_t lanes[16];
    _mm512_store_si512(lanes, sum);
    for (const std::int32_t lane : lanes)
      total += lane;
  }
  return total;
}

}  // namespace

constinit const PeakTable kPeak = {.add_float_products = add_float_products,
                                   .add_byte_products = add_byte_products};

GRAFT_ISA_END

GRAFT_ISA_BEGIN(amx)
namespace {

struct __attribute__((packed)) TileLayout {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 columns: 16 x 16 sums of 64 products each.
double add_byte_products(std::int64_t rounds) {
  alignas(64) const TileLayout layout;
  // The intrinsic of g++ 12 names only the first bytes as its operand.
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

constinit const PeakTable kPeak = {.add_float_products = avx512::add_float_products,
                                   .add_byte_products = add_byte_products};

GRAFT_ISA_END
