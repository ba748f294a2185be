// Byte-pair encoding of one word: its symbols (bytes or characters) are merged pair by pair, the
// lowest rank first, the leftmost of equal ranks first (bpe_merge.h).

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graft/tokenizer/model/bpe_merge.h"
#include "graft/tokenizer/model/pair_table.h"
#include "graft/tokenizer/model/vocabulary.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// Buffers that the calls of one thread reuse.
struct BpeScratch {
  std::vector<TokenId> ids;  // the symbols of the word, then its tokens
  MergeScratch merge;
};

class Bpe {
 public:
  // Throws Error that names the merge when the vocabulary lacks one of its tokens.
  Bpe(const ModelSpec& spec, const Vocabulary& vocabulary);

  void encode(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const;

  // Whether a text without pre-tokenizer may be split before each ▁ that follows another character:
  // no merge crosses that boundary.
  bool can_split_at_spaces() const { return can_split_at_spaces_; }

 private:
  TokenId symbol_of(std::uint8_t first, std::int32_t code) const;
  void add_merges(const ModelSpec& spec, const Vocabulary& vocabulary);
  void add_merges_by_score(const ModelSpec& spec, const Vocabulary& vocabulary);
  void split_symbols(std::string_view word, std::vector<TokenId>& ids) const;
  bool append_as_bytes(std::string_view character, std::vector<TokenId>& ids) const;

  bool byte_level_;
  bool byte_fallback_;
  bool fuse_unk_;
  bool ignore_merges_;
  bool has_all_bytes_ = true;
  bool can_split_at_spaces_;
  TokenId unk_id_;              // -1: none
  std::vector<TokenId> bytes_;  // by byte; -1: not a token
  std::array<TokenId, 128> ascii_{};
  std::unordered_map<std::int32_t, TokenId> characters_;  // non-ASCII characters, by code point
  std::unordered_map<std::string, TokenId> words_;        // all tokens; only with ignore_merges
  std::uint32_t num_ranks_ = 0;
  PairTable pairs_{0, 0};
};

}  // namespace graft::tokenizer
