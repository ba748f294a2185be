#include "graft/tensor/arena.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

TEST(Arena, PiecesAreAlignedAndApart) {
  Arena arena;
  struct Piece {
    std::shared_ptr<std::byte> data;
    std::size_t bytes;
  };
  std::vector<Piece> pieces;
  for (int i = 0; i < 200; ++i) {
    const std::size_t bytes = (static_cast<std::size_t>(i) * 7919) % (2 * kMegabyte);
    pieces.push_back({.data = arena.take(bytes), .bytes = bytes});
    std::fill_n(pieces.back().data.get(), bytes, static_cast<std::byte>(i));
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece.data.get()) % 64, 0U);
    const auto is_mine = [&](std::byte value) { return value == static_cast<std::byte>(i); };
    EXPECT_TRUE(std::all_of(piece.data.get(), piece.data.get() + piece.bytes, is_mine)) << i;
  }
}

TEST(Arena, SmallPiecesShareMemoryAndLargeOnesHaveTheirOwn) {
  Arena arena;
  const auto first = arena.take(kMegabyte);
  const auto large = arena.take(100 * kMegabyte);
  const auto second = arena.take(kMegabyte);
  EXPECT_EQ(second.get() - first.get(), static_cast<std::ptrdiff_t>(kMegabyte));
  EXPECT_FALSE(first.owner_before(second) || second.owner_before(first));
  EXPECT_TRUE(first.owner_before(large) || large.owner_before(first));
}

TEST(Arena, PiecesOutliveIt) {
  std::shared_ptr<std::byte> piece;
  {
    Arena arena;
    piece = arena.take(100);
    std::fill_n(piece.get(), 100, std::byte{7});
  }
  EXPECT_EQ(piece.get()[99], std::byte{7});
  EXPECT_EQ(piece.use_count(), 1);
}

TEST(Arena, BeginsAnewWhenAPieceDoesNotFit) {
  Arena arena;
  std::vector<std::shared_ptr<std::byte>> pieces;
  for (int i = 0; i < 10; ++i) {
    pieces.push_back(arena.take(20 * kMegabyte));
    pieces.back().get()[20 * kMegabyte - 1] = std::byte{1};
  }
  EXPECT_TRUE(pieces.front().owner_before(pieces.back()) ||
              pieces.back().owner_before(pieces.front()));
}

}  // namespace
}  // namespace graft
