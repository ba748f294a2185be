// Fuzzes files of saved sequences: parsing succeeds or explains why not. What an accepted file
// says is consistent.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <xxhash.h>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/engine/snapshot.h"

namespace {

using graft::engine::Snapshot;

// The checksum, and the size of the header where it is too large: mutations almost never get them
// right.
void set_checksum(std::span<std::byte> bytes) {
  constexpr std::size_t kHeaderAt = 8;
  constexpr std::size_t kFixedBytes = 24;
  if (bytes.size() < kFixedBytes) return;
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data() + kHeaderAt, sizeof(header_bytes));
  if (header_bytes > bytes.size() - kFixedBytes) {
    header_bytes = bytes.size() - kFixedBytes;
    std::memcpy(bytes.data() + kHeaderAt, &header_bytes, sizeof(header_bytes));
  }
  const std::size_t covered = bytes.size() - sizeof(std::uint64_t);
  const std::uint64_t hash = XXH3_64bits(bytes.data(), covered);
  std::memcpy(bytes.data() + covered, &hash, sizeof(hash));
}

void check(std::span<const std::byte> bytes) {
  try {
    const Snapshot snapshot = graft::engine::parse_snapshot(bytes, "input");
    const auto num_tokens = static_cast<std::int64_t>(snapshot.tokens.size());
    GRAFT_CHECK(snapshot.num_prompt >= 1 && snapshot.num_prompt <= num_tokens, "prompt of ",
                snapshot.num_prompt, " in ", num_tokens);
    GRAFT_CHECK(snapshot.num_computed >= 0 && snapshot.num_computed < num_tokens, "computed ",
                snapshot.num_computed, " of ", num_tokens);
    GRAFT_CHECK(snapshot.blocks.size() <= bytes.size(), "blocks of ", snapshot.blocks.size());
  } catch (const graft::Error& error) {
    GRAFT_CHECK(std::string(error.what()).starts_with("input: "), error.what());
  }
}

}  // namespace

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(input.begin(), input.end());
  check(bytes);
  set_checksum(bytes);
  check(bytes);
  return 0;
}
