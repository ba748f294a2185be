// A saved sequence: a JSON header, its recurrent states, the pixels of its images and its KV cache
// blocks, and a checksum over all. The file is written under a temporary name and renamed when
// complete, so `path` is never partial; the checksum detects later damage. Only its owner can read
// it.
//
//   magic "GRAFTSEQ" | u64 header bytes | header (JSON) | recurrent states | f32 pixels | blocks |
//   u64 XXH3-64 of all before

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graft/engine/sampling_params.h"
#include "graft/error.h"
#include "graft/llm.h"

namespace graft::engine {

struct Snapshot {
  std::uint64_t model = 0;  // fingerprint of the weights
  std::string cache_form;   // Model::cache_form()
  std::int64_t block_tokens = 16;
  SamplingParams params;
  std::uint64_t seed = 0;
  std::int64_t priority = 0;
  std::uint64_t cache_salt = 0;
  bool uses_long_rope = false;  // Sequence::uses_long_rope
  std::string adapter_name;
  std::uint64_t adapter = 0;  // AdapterInfo::identity; 0: none
  std::int64_t num_prompt = 0;
  std::int64_t num_computed = 0;
  std::vector<TokenId> tokens;
  std::vector<SequenceImage> images;  // with pixels, without features
  std::size_t block_bytes = 0;
  std::vector<std::byte> state;   // recurrent states after num_computed tokens; empty: none
  std::int64_t first_block = 0;   // blocks before it had left every sliding window
  std::vector<std::byte> blocks;  // of num_computed tokens, in order, block_bytes each
};

// There is no such sequence: it has finished, or never was.
class UnknownSequence : public Error {
 public:
  using Error::Error;
};

// `block(i)` returns the bytes of block first_block + i and is called in order, so that only one
// block needs to be in memory. Throws Error.
void write_snapshot(const std::filesystem::path& path,
                    const Snapshot& snapshot,
                    std::int64_t num_blocks,
                    const std::function<std::span<const std::byte>(std::int64_t)>& block);

// Throws Error when the file is not a saved sequence, is damaged or was saved by another version of
// graft.
Snapshot read_snapshot(const std::filesystem::path& path);
// The same of the bytes of a file; `where` begins the messages.
Snapshot parse_snapshot(std::span<const std::byte> bytes, const std::string& where);

}  // namespace graft::engine
