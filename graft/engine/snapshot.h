// A sequence on disk: who it is (JSON), its blocks of the cache, and a checksum over all of it. The
// file gets its name when the last byte is written, so a torn one is never found under it; one that
// was damaged later is known by the checksum.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "graft/engine/sequence.h"

namespace graft::engine {

struct Snapshot {
  std::uint64_t model = 0;  // fingerprint of its weights
  std::string cache_form;   // Model::cache_form()
  std::int64_t block_tokens = 16;
  SamplingParams params;
  std::uint64_t seed = 0;
  std::int64_t priority = 0;
  std::uint64_t cache_salt = 0;
  std::int64_t num_prompt = 0;
  std::int64_t num_computed = 0;
  std::vector<TokenId> tokens;
  std::size_t block_bytes = 0;
  std::vector<std::byte> blocks;  // those that hold num_computed tokens, in order
};

// `block(i)` gives the bytes of block i in turn, so that they need not all be in memory. Throws
// Error.
void write_snapshot(const std::filesystem::path& path,
                    const Snapshot& snapshot,
                    std::int64_t num_blocks,
                    const std::function<std::span<const std::byte>(std::int64_t)>& block);

// Throws Error for a file that is none, is damaged or comes from another version of graft.
Snapshot read_snapshot(const std::filesystem::path& path);

}  // namespace graft::engine
