// One entry of a tier: the bytes of a KV cache block, or of the recurrent states after it, with the
// key, the parent and the tokens that they were computed from.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graft/engine/tiers/block_key.h"
#include "graft/engine/tiers/block_memory.h"
#include "graft/llm.h"

namespace graft::engine {

using graft::TokenId;

struct TierEntry {
  BlockKey key;
  BlockKey parent;              // of the block before; of recurrent states: of their block
  std::vector<TokenId> tokens;  // of the block
  EntryBytes bytes;
};
using TierEntryPtr = std::shared_ptr<const TierEntry>;

// What a sequence needs.
struct TierQuery {
  BlockKey key;
  BlockKey parent;
  std::span<const TokenId> tokens;
  std::size_t num_bytes = 0;
};

// Compares more than the key: an entry whose hash collides is no match.
bool matches(const TierEntry& entry, const TierQuery& query);

// The form of an entry in a file:
//
//   magic "GRAFTKVB" | u32 version | u32 tokens | key | parent | u64 payload bytes | u64 XXH3-64 of
//   all other bytes | tokens (i32) | payload
//
// Keys are two u64, high half first; everything is little-endian.
inline constexpr std::size_t kEntryHeaderBytes = 64;
inline constexpr std::uint32_t kEntryVersion = 1;

// Header and tokens; the payload follows.
std::vector<std::byte> entry_header(const TierEntry& entry);
// Why `file` is not a complete entry; empty: it is one, and `entry` is set. Its bytes are in
// `memory`; null: in ordinary memory.
std::string parse_entry(std::span<const std::byte> file,
                        TierEntry& entry,
                        BlockMemory* memory = nullptr);

}  // namespace graft::engine
