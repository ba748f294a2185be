// packed-bf16-inl.h with AMX tiles emulated here after the instruction set manual, and with real
// AMX where this CPU has it.

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <immintrin.h>

#include "graft/kernels/cpu/isa/isa.h"
#include "graft/kernels/cpu/packed/packed.h"
#include "graft/kernels/cpu/table.h"
#include "graft/kernels/cpu/x86/tile_layout.h"
#include "graft/tensor/dtype.h"
#include "graft/testing/kernels/bf16_problem.h"

namespace graft::kernels::cpu {
namespace {

float flushed(float value) {
  return std::abs(value) < FLT_MIN ? std::copysign(0.0F, value) : value;
}

float fused(float a, float b, float c) {
  return flushed(std::fma(flushed(a), flushed(b), flushed(c)));
}

class EmulatedTiles {
 public:
  void configure(const TileLayout& layout) {
    ASSERT_EQ(layout.palette, 1);
    layout_ = layout;
    for (Tile& tile : tiles_)
      tile = {};
  }
  void release() { layout_ = {}; }

  void load(int tile, const void* from, std::int64_t stride) {
    Tile& to = configured(tile);
    to = {};
    for (int row = 0; row < layout_.rows[tile]; ++row)
      std::memcpy(to.rows[row].bytes, at(from, row * stride), layout_.row_bytes[tile]);
  }
  void store(int tile, void* to, std::int64_t stride) {
    const Tile& from = configured(tile);
    for (int row = 0; row < layout_.rows[tile]; ++row) {
      std::memcpy(static_cast<std::byte*>(to) + row * stride, from.rows[row].bytes,
                  layout_.row_bytes[tile]);
    }
  }

  // tdpbf16ps: even and odd columns have separate sums that start at zero and are added at the end.
  // Subnormals are flushed to zero.
  void dot(int sums, int x, int w) {
    Tile& to = configured(sums);
    const Tile& left = configured(x);
    const Tile& right = configured(w);
    ASSERT_EQ(layout_.rows[w] * 4, layout_.row_bytes[x]);
    for (int m = 0; m < layout_.rows[sums]; ++m) {
      for (int n = 0; n < layout_.row_bytes[sums] / 4; ++n) {
        float partial[2] = {};
        for (int k = 0; k < layout_.row_bytes[x] / 4; ++k) {
          for (int i = 0; i < 2; ++i) {
            partial[i] =
                fused(half(left.rows[m], 2 * k + i), half(right.rows[k], 2 * n + i), partial[i]);
          }
        }
        float sum = 0;
        std::memcpy(&sum, to.rows[m].bytes + 4 * n, sizeof(sum));
        sum = flushed(flushed(sum) + flushed(partial[0] + partial[1]));
        std::memcpy(to.rows[m].bytes + 4 * n, &sum, sizeof(sum));
      }
    }
  }

 private:
  struct Row {
    std::byte bytes[64] = {};
  };
  struct Tile {
    Row rows[16];
  };

  Tile& configured(int tile) {
    EXPECT_GT(layout_.rows[tile], 0) << "tile " << tile << " is not configured";
    return tiles_[tile];
  }
  static const std::byte* at(const void* from, std::int64_t offset) {
    return static_cast<const std::byte*>(from) + offset;
  }
  static float half(const Row& row, int i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, row.bytes + 2 * i, sizeof(bits));
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }

  TileLayout layout_;
  Tile tiles_[8];
};

EmulatedTiles emulated;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace
}  // namespace graft::kernels::cpu

GRAFT_ISA_BEGIN(avx512)
#define GRAFT_TILE_CONFIGURE(layout) emulated.configure(layout)
#define GRAFT_TILE_RELEASE() emulated.release()
#define GRAFT_TILE_LOAD(tile, from, stride) emulated.load(tile, from, stride)
#define GRAFT_TILE_STORE(tile, to, stride) emulated.store(tile, to, stride)
#define GRAFT_TILE_DOT(sums, x, w) emulated.dot(sums, x, w)
#include "graft/kernels/cpu/x86/packed-bf16-inl.h"
namespace {
constexpr PackedTable kEmulated = with_bf16({.tile_rows = 16});
}  // namespace
GRAFT_ISA_END

namespace graft::kernels::cpu {
namespace {

using bf16_problem::Bf16Problem;
using bf16_problem::expect_batch_invariance;
using bf16_problem::expect_decoded_weights;
using bf16_problem::expect_every_fp8_code;
using bf16_problem::expect_nan_in_its_row;
using bf16_problem::kBf16Types;
using bf16_problem::NamedTable;

// Empty without AVX-512, which the code around the tiles needs.
std::vector<NamedTable> tables() {
  std::vector<NamedTable> found;
  for (const KernelTable* table : runnable_kernels()) {
    if (table->isa == "avx512") found.push_back({"emulated", &avx512::kEmulated});
    if (table->packed.kernels[static_cast<std::size_t>(DType::BF16)].multiply != nullptr) {
      found.push_back({table->isa, &table->packed});
    }
  }
  return found;
}

TEST(PackedBf16, MatchesTheDecodedWeights) {
  if (tables().empty()) GTEST_SKIP() << "this CPU lacks AVX-512";
  for (const NamedTable& table : tables())
    expect_decoded_weights(table);
}

TEST(PackedBf16, IsBatchInvariant) {
  if (tables().empty()) GTEST_SKIP() << "this CPU lacks AVX-512";
  for (const NamedTable& table : tables())
    expect_batch_invariance(table);
}

TEST(PackedBf16, AmxMatchesTheEmulationBitForBit) {
  const std::vector<NamedTable> all = tables();
  if (all.size() < 2) GTEST_SKIP() << "this CPU lacks AMX";
  for (const DType type : kBf16Types) {
    Bf16Problem problem(type, 50, 1024, 19, false);
    problem.x[7] = 1e-39F;  // subnormal: flushed to zero
    problem.x[8] = 1e-20F;
    EXPECT_EQ(problem.multiply(*all[0].table, 0, 19), problem.multiply(*all[1].table, 0, 19))
        << graft::name(type);
  }
}

TEST(PackedBf16, ConvertsEveryFp8Code) {
  if (tables().empty()) GTEST_SKIP() << "this CPU lacks AVX-512";
  for (const NamedTable& table : tables())
    expect_every_fp8_code(table);
}

TEST(PackedBf16, NanInXStaysInItsRow) {
  if (tables().empty()) GTEST_SKIP() << "this CPU lacks AVX-512";
  for (const NamedTable& table : tables())
    expect_nan_in_its_row(table);
}

}  // namespace
}  // namespace graft::kernels::cpu
