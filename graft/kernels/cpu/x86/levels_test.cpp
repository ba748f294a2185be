#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/kernels/cpu/isa/isa_level.h"
#include "graft/kernels/cpu/table.h"

namespace graft::kernels::cpu {
namespace {

constexpr CpuFeatures kAvx2 = {.avx2 = true, .fma = true, .f16c = true, .bmi2 = true};

CpuFeatures avx512() {
  CpuFeatures features = kAvx2;
  features.avx512f = features.avx512bw = features.avx512vl = true;
  features.avx512dq = features.avx512vnni = true;
  return features;
}

CpuFeatures amx() {
  CpuFeatures features = avx512();
  features.amx_tile = features.amx_int8 = features.amx_bf16 = true;
  return features;
}

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
  EXPECT_EQ(choose_level("", kAvx2), IsaLevel::Avx2);
  EXPECT_EQ(choose_level("", avx512()), IsaLevel::Avx512);
  EXPECT_EQ(choose_level("", amx()), IsaLevel::Amx);
  CpuFeatures skylake = avx512();
  skylake.avx512vnni = false;
  EXPECT_EQ(choose_level("", skylake), IsaLevel::Avx2);
  CpuFeatures tiles_only = amx();
  tiles_only.amx_int8 = false;
  EXPECT_EQ(choose_level("", tiles_only), IsaLevel::Avx512);
}

TEST(IsaLevel, NameSelectsALowerLevel) {
  EXPECT_EQ(choose_level("scalar", amx()), IsaLevel::Scalar);
  EXPECT_EQ(choose_level("avx2", amx()), IsaLevel::Avx2);
  EXPECT_EQ(choose_level("avx512", amx()), IsaLevel::Avx512);
  EXPECT_EQ(choose_level("amx", amx()), IsaLevel::Amx);
}

TEST(IsaLevel, ErrorsNameTheMissingFeature) {
  EXPECT_EQ(error_of("foo", amx()), "GRAFT_CPU_ISA=foo: unknown level (scalar, avx2, avx512, amx)");
  EXPECT_EQ(error_of("AVX2", amx()),
            "GRAFT_CPU_ISA=AVX2: unknown level (scalar, avx2, avx512, amx)");
  EXPECT_EQ(error_of("amx", avx512()), "GRAFT_CPU_ISA=amx: this CPU lacks amx-tile");
  EXPECT_EQ(error_of("avx512", kAvx2), "GRAFT_CPU_ISA=avx512: this CPU lacks avx512f");
  EXPECT_EQ(error_of("avx2", {}), "GRAFT_CPU_ISA=avx2: this CPU lacks avx2");
}

TEST(IsaLevel, LongVectorsReadTheKvCacheAsStored) {
  for (const KernelTable* table : runnable_kernels()) {
    const bool has_long_vectors = table->isa != "scalar";
    EXPECT_EQ(table->math.attend_f16.add_values != nullptr, has_long_vectors) << table->isa;
  }
}

}  // namespace
}  // namespace graft::kernels::cpu
