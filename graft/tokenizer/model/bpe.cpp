#include "graft/tokenizer/model/bpe.h"

#include <algorithm>
#include <cmath>

#include "graft/base/error.h"
#include "graft/tokenizer/steps/unicode.h"

namespace graft::tokenizer {
namespace {

bool has_space_inside(std::string_view token) {
  for (auto at = token.find(kSpaceMarker, 1); at != std::string_view::npos;
       at = token.find(kSpaceMarker, at + 1)) {
    if (!token.substr(0, at).ends_with(kSpaceMarker)) return true;
  }
  return false;
}

}  // namespace

Bpe::Bpe(const ModelSpec& spec, const Vocabulary& vocabulary)
    : byte_level_(spec.byte_level),
      byte_fallback_(spec.byte_fallback),
      fuse_unk_(spec.fuse_unk),
      ignore_merges_(spec.ignore_merges),
      can_split_at_spaces_(!spec.byte_level && !spec.ignore_merges &&
                           vocabulary.find(kSpaceMarker).has_value()),
      unk_id_(spec.unk_id.value_or(-1)),
      bytes_(byte_ids(vocabulary, spec.byte_level)) {
  has_all_bytes_ = std::ranges::find(bytes_, -1) == bytes_.end();
  // Unknown characters must produce a token. Without one their neighbours become adjacent and may
  // merge.
  can_split_at_spaces_ =
      can_split_at_spaces_ && (unk_id_ >= 0 || (byte_fallback_ && has_all_bytes_));
  ascii_.fill(-1);
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string& token = vocabulary.token(id);
    if (token.empty() || !vocabulary.is_plain(id)) continue;
    if (ignore_merges_) {
      words_.emplace(byte_level_ ? bytes_of_letters(token).value_or("") : token, id);
    }
    if (byte_level_) continue;
    const Character c = first_character(token);
    if (c.bytes != token.size()) continue;
    if (c.code >= 0 && c.code < 128) {
      ascii_[static_cast<std::size_t>(c.code)] = id;
    } else if (c.code >= 0) {
      characters_.emplace(c.code, id);
    }
  }
  if (spec.merges_by_score) {
    add_merges_by_score(spec, vocabulary);
  } else {
    add_merges(spec, vocabulary);
  }
}

void Bpe::add_merges(const ModelSpec& spec, const Vocabulary& vocabulary) {
  pairs_ = PairTable(spec.merges.size(), vocabulary.size());
  std::string joined;
  for (const auto& merge : spec.merges) {
    const std::string& left = merge.first;
    const std::string& right = merge.second;
    const std::uint32_t rank = num_ranks_++;
    joined.assign(left);
    joined += right;
    const auto id_of = [&](const std::string& token) {
      const auto id = vocabulary.find(token);
      if (!id) {
        fail("merge ", rank, " \"", left, ' ', right, "\": the vocabulary has no token \"", token,
             '"');
      }
      return *id;
    };
    const TokenId left_id = id_of(left);
    const TokenId right_id = id_of(right);
    // A repeated pair keeps its first rank: the later merge would find nothing to merge.
    pairs_.insert(left_id, right_id, {rank, id_of(joined)});
    if (can_split_at_spaces_ && has_space_inside(joined)) can_split_at_spaces_ = false;
  }
}

// Two symbols merge when their concatenation is a token; the token with the best score first.
void Bpe::add_merges_by_score(const ModelSpec& spec, const Vocabulary& vocabulary) {
  std::vector<TokenId> order;
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!vocabulary.is_plain(id)) continue;
    if (std::isnan(spec.scores[i])) {
      fail("token ", i, " \"", vocabulary.token(id), "\": the score is NaN");
    }
    order.push_back(id);
  }
  const auto score = [&](TokenId id) { return spec.scores[static_cast<std::size_t>(id)]; };
  std::ranges::stable_sort(order, [&](TokenId a, TokenId b) { return score(a) > score(b); });

  struct Found {
    TokenId left;
    TokenId right;
    PairMerge merge;
  };
  std::vector<Found> found;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::string_view token = vocabulary.token(order[i]);
    // Equal scores share a rank, so that the leftmost pair merges first.
    if (i == 0 || score(order[i - 1]) != score(order[i])) ++num_ranks_;
    const std::uint32_t rank = num_ranks_ - 1;
    if (token.empty()) continue;
    if (can_split_at_spaces_ && has_space_inside(token)) can_split_at_spaces_ = false;
    for (std::size_t cut = first_character(token).bytes; cut < token.size();
         cut += first_character(token.substr(cut)).bytes) {
      const auto left = vocabulary.find(token.substr(0, cut));
      const auto right = vocabulary.find(token.substr(cut));
      if (!left || !right || !vocabulary.is_plain(*left) || !vocabulary.is_plain(*right)) continue;
      found.push_back({*left, *right, {rank, order[i]}});
    }
  }
  pairs_ = PairTable(found.size(), vocabulary.size());
  for (const Found& pair : found)
    pairs_.insert(pair.left, pair.right, pair.merge);
}

void Bpe::encode(std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out) const {
  if (ignore_merges_) {
    const auto whole = words_.find(std::string(word));
    if (whole != words_.end()) {
      out.push_back(whole->second);
      return;
    }
  }
  split_symbols(word, scratch.ids);
  merge_symbols(pairs_, num_ranks_, scratch.merge, scratch.ids);
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
}

TokenId Bpe::symbol_of(std::uint8_t first, std::int32_t code) const {
  if (byte_level_) return bytes_[first];
  if (first < 0x80) return ascii_[first];
  const auto found = characters_.find(code);
  return found == characters_.end() ? -1 : found->second;
}

// Byte fallback. False and no ids unless all bytes of the character are tokens.
bool Bpe::append_as_bytes(std::string_view character, std::vector<TokenId>& ids) const {
  const auto is_missing = [this](char c) { return bytes_[static_cast<std::uint8_t>(c)] < 0; };
  if (!byte_fallback_ || byte_level_ || std::ranges::any_of(character, is_missing)) return false;
  for (const char c : character)
    ids.push_back(bytes_[static_cast<std::uint8_t>(c)]);
  return true;
}

void Bpe::split_symbols(std::string_view word, std::vector<TokenId>& ids) const {
  ids.clear();
  if (byte_level_ && has_all_bytes_) {
    ids.resize(word.size());
    for (std::size_t i = 0; i < word.size(); ++i)
      ids[i] = bytes_[static_cast<std::uint8_t>(word[i])];
    return;
  }
  bool pending_unk = false;
  for (std::size_t at = 0; at < word.size();) {
    const auto first = static_cast<std::uint8_t>(word[at]);
    const Character c = byte_level_ ? Character{first, 1} : first_character(word.substr(at));
    const std::string_view character = word.substr(at, c.bytes);
    at += c.bytes;
    const TokenId id = symbol_of(first, c.code);
    if (id >= 0) {
      if (pending_unk) ids.push_back(unk_id_);
      pending_unk = false;
      ids.push_back(id);
    } else if (!append_as_bytes(character, ids) && unk_id_ >= 0) {
      // Written late, so that consecutive unknown characters can fuse into one.
      if (pending_unk && !fuse_unk_) ids.push_back(unk_id_);
      pending_unk = true;
    }
  }
  if (pending_unk) ids.push_back(unk_id_);
}

}  // namespace graft::tokenizer
