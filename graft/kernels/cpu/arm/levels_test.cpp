#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/kernels/cpu/isa/isa_level.h"

namespace graft::kernels::cpu {
namespace {

constexpr CpuFeatures kNeon = {.neon = true};
constexpr CpuFeatures kDotprod = {.neon = true, .dotprod = true};
constexpr CpuFeatures kI8mm = {.neon = true, .dotprod = true, .i8mm = true};
constexpr CpuFeatures kBf16 = {.neon = true, .dotprod = true, .i8mm = true, .bf16 = true};

std::string error_of(std::string_view name, const CpuFeatures& features) {
  try {
    choose_level(name, features);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(IsaLevel, SelectsTheHighestSupportedLevel) {
  EXPECT_EQ(choose_level("", {}), IsaLevel::Scalar);
  EXPECT_EQ(choose_level("", kNeon), IsaLevel::Neon);
  EXPECT_EQ(choose_level("", kDotprod), IsaLevel::Dotprod);
  EXPECT_EQ(choose_level("", kI8mm), IsaLevel::I8mm);
  EXPECT_EQ(choose_level("", kBf16), IsaLevel::Bf16);
}

TEST(IsaLevel, NameSelectsALowerLevel) {
  EXPECT_EQ(choose_level("scalar", kI8mm), IsaLevel::Scalar);
  EXPECT_EQ(choose_level("neon", kI8mm), IsaLevel::Neon);
  EXPECT_EQ(choose_level("dotprod", kI8mm), IsaLevel::Dotprod);
  EXPECT_EQ(choose_level("i8mm", kBf16), IsaLevel::I8mm);
}

TEST(IsaLevel, ErrorsNameTheMissingFeature) {
  EXPECT_EQ(error_of("avx2", kI8mm),
            "GRAFT_CPU_ISA=avx2: unknown level (scalar, neon, dotprod, i8mm, bf16)");
  EXPECT_EQ(error_of("i8mm", kDotprod), "GRAFT_CPU_ISA=i8mm: this CPU lacks i8mm");
  EXPECT_EQ(error_of("bf16", kI8mm), "GRAFT_CPU_ISA=bf16: this CPU lacks bf16");
  EXPECT_EQ(error_of("dotprod", kNeon), "GRAFT_CPU_ISA=dotprod: this CPU lacks dotprod");
}

TEST(IsaLevel, EveryArm64CpuHasNeon) {
  EXPECT_TRUE(cpu_features().neon);
}

}  // namespace
}  // namespace graft::kernels::cpu
