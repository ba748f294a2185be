#include "graft/kernels/cpu/peak.h"

#include <string>

#include <gtest/gtest.h>

#include "graft/kernels/cpu/table.h"

namespace graft::kernels::cpu {
namespace {

// Fails when the compiler optimizes the loops away.
TEST(Peak, ReturnsTheNumberOfProducts) {
  for (const KernelTable* table : runnable_kernels()) {
    SCOPED_TRACE(std::string(table->isa));
    const PeakTable& peak = table->peak;
    ASSERT_NE(peak.f32_products, nullptr);
    const double floats = peak.f32_products(1);
    EXPECT_GE(floats, 10 * 4);
    EXPECT_EQ(peak.f32_products(1000), 1000 * floats);
    if (peak.int8_products == nullptr) continue;
    const double bytes = peak.int8_products(1);
    EXPECT_GE(bytes, 10 * 16);
    EXPECT_EQ(peak.int8_products(1000), 1000 * bytes);
  }
}

}  // namespace
}  // namespace graft::kernels::cpu
