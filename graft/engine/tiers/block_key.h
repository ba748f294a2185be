// Content address of a KV cache block: a 128-bit hash of everything its bytes depend on. The root
// key stands for the model, the cache layout and the salt; the key of a block is the hash of its
// parent's key and its tokens, so it identifies the whole prefix. Equal in every process.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graft/llm.h"

namespace graft::engine {

struct BlockKey {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  auto operator<=>(const BlockKey&) const = default;
};

struct BlockKeyHash {
  std::size_t operator()(const BlockKey& key) const { return static_cast<std::size_t>(key.low); }
};

// What the bytes of a block depend on besides its tokens.
struct CacheIdentity {
  std::string model = {};       // weights, configuration, operators and instruction set
  std::string cache_form = {};  // Model::cache_form()
  std::int64_t block_tokens = 0;
  std::uint64_t salt = 0;  // BlockTable::root_id
  bool uses_long_rope = false;
};

BlockKey root_key(const CacheIdentity& identity);
BlockKey child_key(const BlockKey& parent, std::span<const graft::TokenId> tokens);
// Of the recurrent states after the tokens of a block.
BlockKey state_key(const BlockKey& block);

std::string to_hex(const BlockKey& key);                        // 32 digits
std::optional<BlockKey> parse_block_key(std::string_view hex);  // nullopt: not 32 lower-case digits

}  // namespace graft::engine
