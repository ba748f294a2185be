// Fuzzes files of KV cache blocks: parsing succeeds or explains why not. What an accepted file
// contains gives the same file again.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <xxhash.h>

#include "graft/base/check.h"
#include "graft/engine/tiers/tier_entry.h"

namespace {

// Sets the checksum, which mutations almost never get right.
void set_checksum(std::span<std::byte> bytes) {
  constexpr std::size_t kTokensAt = 12;
  constexpr std::size_t kHashAt = graft::engine::kEntryHeaderBytes - sizeof(std::uint64_t);
  if (bytes.size() < graft::engine::kEntryHeaderBytes) return;
  std::uint32_t num_tokens = 0;
  std::memcpy(&num_tokens, bytes.data() + kTokensAt, sizeof(num_tokens));
  const auto rest = bytes.subspan(graft::engine::kEntryHeaderBytes);
  const std::size_t token_bytes = std::size_t{num_tokens} * sizeof(graft::TokenId);
  if (token_bytes > rest.size()) return;
  std::uint64_t hash = XXH3_64bits(bytes.data(), kHashAt);
  hash = XXH3_64bits_withSeed(rest.data(), token_bytes, hash);
  hash = XXH3_64bits_withSeed(rest.data() + token_bytes, rest.size() - token_bytes, hash);
  std::memcpy(bytes.data() + kHashAt, &hash, sizeof(hash));
}

bool check(std::span<const std::byte> bytes) {
  graft::engine::TierEntry entry;
  const std::string problem = graft::engine::parse_entry(bytes, entry);
  if (!problem.empty()) return false;
  std::vector<std::byte> again = graft::engine::entry_header(entry);
  const std::span<const std::byte> payload = entry.bytes.bytes();
  again.insert(again.end(), payload.begin(), payload.end());
  GRAFT_CHECK(std::ranges::equal(again, bytes), "an accepted file of ", bytes.size(),
              " bytes is written differently");
  return true;
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
