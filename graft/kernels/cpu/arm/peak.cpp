#include "graft/kernels/cpu/peak.h"

#include <cstdint>

#include <arm_neon.h>

#include "graft/kernels/cpu/isa/isa.h"

// Sixteen independent sums keep four units with a latency of four cycles busy. An asm hides from
// the compiler that the factors are 1 and the sums equal.

namespace graft::kernels::cpu {
namespace {

constexpr int kSums = 16;

double total(const float32x4_t* sums) {
  double result = 0;
  for (int i = 0; i < kSums; ++i)
    result += vaddvq_f32(sums[i]);
  return result;
}

double total(const int32x4_t* sums) {
  double result = 0;
  for (int i = 0; i < kSums; ++i)
    result += vaddvq_s32(sums[i]);
  return result;
}

}  // namespace

namespace scalar {
namespace {

double f32_products(std::int64_t rounds) {
  float32x4_t sums[kSums] = {};
  float32x4_t one = vdupq_n_f32(1.0F);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) {  // NOLINT(modernize-loop-convert)
      __asm__ volatile("" : "+w"(one));
      sums[i] = vaddq_f32(sums[i], vmulq_f32(one, one));
    }
  }
  return total(sums);
}

}  // namespace

constinit const PeakTable kPeak = {.f32_products = f32_products, .int8_products = nullptr};

}  // namespace scalar

namespace neon {
namespace {

double f32_products(std::int64_t rounds) {
  float32x4_t sums[kSums] = {};
  const float32x4_t one = vdupq_n_f32(1.0F);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i)  // NOLINT(modernize-loop-convert)
      __asm__ volatile("fmla %0.4s, %1.4s, %1.4s" : "+w"(sums[i]) : "w"(one));
  }
  return total(sums);
}

// As the packed kernels: int8 products to 16 bits, then two sums of pairs.
double int8_products(std::int64_t rounds) {
  int32x4_t sums[kSums] = {};
  int8x16_t one = vdupq_n_s8(1);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) {  // NOLINT(modernize-loop-convert)
      __asm__ volatile("" : "+w"(one));
      const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(one), vget_low_s8(one)));
      const int32x4_t high = vpaddlq_s16(vmull_high_s8(one, one));
      sums[i] = vaddq_s32(sums[i], vpaddq_s32(low, high));
    }
  }
  return total(sums);
}

}  // namespace

constinit const PeakTable kPeak = {.f32_products = f32_products, .int8_products = int8_products};

}  // namespace neon
}  // namespace graft::kernels::cpu

GRAFT_ISA_BEGIN(dotprod)
namespace {

double int8_products(std::int64_t rounds) {
  int32x4_t sums[kSums] = {};
  const int8x16_t one = vdupq_n_s8(1);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i)  // NOLINT(modernize-loop-convert)
      __asm__ volatile("sdot %0.4s, %1.16b, %1.16b" : "+w"(sums[i]) : "w"(one));
  }
  return total(sums);
}

}  // namespace

constinit const PeakTable kPeak = {.f32_products = neon::f32_products,
                                   .int8_products = int8_products};

GRAFT_ISA_END

GRAFT_ISA_BEGIN(i8mm)
namespace {

double int8_products(std::int64_t rounds) {
  int32x4_t sums[kSums] = {};
  const int8x16_t one = vdupq_n_s8(1);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i)  // NOLINT(modernize-loop-convert)
      __asm__ volatile("smmla %0.4s, %1.16b, %1.16b" : "+w"(sums[i]) : "w"(one));
  }
  return total(sums);
}

}  // namespace

constinit const PeakTable kPeak = {.f32_products = neon::f32_products,
                                   .int8_products = int8_products};

GRAFT_ISA_END
