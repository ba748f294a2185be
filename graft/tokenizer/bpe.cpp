#include "graft/tokenizer/bpe.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "graft/base/error.h"
#include "graft/tokenizer/unicode.h"

namespace graft::tokenizer {
namespace {

constexpr std::string_view kSpaceSign = "\u2581";  // ▁, SentencePiece's space

// Up to here, looking through all pairs for the best is faster than keeping queues.
constexpr std::size_t kMaxShortWord = 96;

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

bool has_space_inside(std::string_view token) {
  for (auto at = token.find(kSpaceSign, 1); at != std::string_view::npos;
       at = token.find(kSpaceSign, at + 1)) {
    if (!token.substr(0, at).ends_with(kSpaceSign)) return true;
  }
  return false;
}

}  // namespace

Bpe::Bpe(const ModelSpec& spec, const Vocabulary& vocabulary)
    : byte_level_(spec.byte_level),
      byte_fallback_(spec.byte_fallback),
      fuse_unk_(spec.fuse_unk),
      ignore_merges_(spec.ignore_merges),
      may_cut_at_spaces_(!spec.byte_level && !spec.ignore_merges &&
                         vocabulary.find(kSpaceSign).has_value()),
      unk_id_(spec.unk_id.value_or(-1)),
      bytes_(byte_ids(vocabulary, spec.byte_level)) {
  has_all_bytes_ = std::ranges::find(bytes_, -1) == bytes_.end();
  // What is unknown must leave something behind, or its neighbours come together.
  may_cut_at_spaces_ = may_cut_at_spaces_ && (unk_id_ >= 0 || (byte_fallback_ && has_all_bytes_));
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
  for (const auto& [left, right] : spec.merges) {
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
    // A pair that comes again counts as it did first: what it would do later was done.
    pairs_.insert(left_id, right_id, {rank, id_of(joined)});
    if (may_cut_at_spaces_ && has_space_inside(joined)) may_cut_at_spaces_ = false;
  }
}

// Two symbols merge when together they spell a token; the token with the best score first.
void Bpe::add_merges_by_score(const ModelSpec& spec, const Vocabulary& vocabulary) {
  std::vector<TokenId> order;
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!vocabulary.is_plain(id)) continue;
    if (std::isnan(spec.scores[i])) {
      fail("token ", i, " \"", vocabulary.token(id), "\" has a score that is no number");
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
    // Equal scores are one rank: the leftmost pair wins then.
    if (i == 0 || score(order[i - 1]) != score(order[i])) ++num_ranks_;
    const std::uint32_t rank = num_ranks_ - 1;
    if (token.empty()) continue;
    if (may_cut_at_spaces_ && has_space_inside(token)) may_cut_at_spaces_ = false;
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
  take_symbols(word, scratch.ids);
  if (scratch.ids.size() <= kMaxShortWord) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
}

TokenId Bpe::symbol_of(std::uint8_t first, std::int32_t code) const {
  if (byte_level_) return bytes_[first];
  if (first < 0x80) return ascii_[first];
  const auto found = characters_.find(code);
  return found == characters_.end() ? -1 : found->second;
}

// All its bytes must be tokens, else none is taken.
bool Bpe::take_as_bytes(std::string_view character, std::vector<TokenId>& ids) const {
  const auto is_missing = [this](char c) { return bytes_[static_cast<std::uint8_t>(c)] < 0; };
  if (!byte_fallback_ || byte_level_ || std::ranges::any_of(character, is_missing)) return false;
  for (const char c : character)
    ids.push_back(bytes_[static_cast<std::uint8_t>(c)]);
  return true;
}

void Bpe::take_symbols(std::string_view word, std::vector<TokenId>& ids) const {
  ids.clear();
  if (byte_level_ && has_all_bytes_) {
    ids.resize(word.size());
    for (std::size_t i = 0; i < word.size(); ++i)
      ids[i] = bytes_[static_cast<std::uint8_t>(word[i])];
    return;
  }
  bool owes_unknown = false;
  for (std::size_t at = 0; at < word.size();) {
    const auto first = static_cast<std::uint8_t>(word[at]);
    const Character c = byte_level_ ? Character{first, 1} : first_character(word.substr(at));
    const std::string_view character = word.substr(at, c.bytes);
    at += c.bytes;
    const TokenId id = symbol_of(first, c.code);
    if (id >= 0) {
      if (owes_unknown) ids.push_back(unk_id_);
      owes_unknown = false;
      ids.push_back(id);
    } else if (!take_as_bytes(character, ids) && unk_id_ >= 0) {
      // What is unknown is written late, with its neighbours where they fuse.
      if (owes_unknown && !fuse_unk_) ids.push_back(unk_id_);
      owes_unknown = true;
    }
  }
  if (owes_unknown) ids.push_back(unk_id_);
}

void Bpe::merge_short(BpeScratch& scratch) const {
  std::vector<TokenId>& ids = scratch.ids;
  if (ids.size() < 2) return;
  std::array<std::uint32_t, kMaxShortWord> ranks{};
  std::size_t num_pairs = ids.size() - 1;
  for (std::size_t i = 0; i < num_pairs; ++i)
    ranks[i] = pairs_.find(ids[i], ids[i + 1]).rank;
  while (num_pairs > 0) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < num_pairs; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == PairTable::kNoRank) break;
    ids[best] = pairs_.find(ids[best], ids[best + 1]).id;
    --num_pairs;
    for (std::size_t i = best + 1; i <= num_pairs; ++i)
      ids[i] = ids[i + 1];
    for (std::size_t i = best + 1; i < num_pairs; ++i)
      ranks[i] = ranks[i + 1];
    if (best > 0) ranks[best - 1] = pairs_.find(ids[best - 1], ids[best]).rank;
    if (best < num_pairs) ranks[best] = pairs_.find(ids[best], ids[best + 1]).rank;
  }
  ids.resize(num_pairs + 1);
}

namespace {

// A long word's pairs, by rank. A heap of all pairs would take n log n steps through memory; here a
// heap holds only the ranks that occur, and each of them its positions from left to right.
class Merger {
 public:
  Merger(const PairTable& pairs, std::uint32_t num_ranks, BpeScratch& scratch)
      : pairs_(pairs), s_(scratch) {
    const auto size = static_cast<std::uint32_t>(s_.ids.size());
    s_.queue_of_rank.resize(num_ranks, kNone);
    s_.symbols.resize(size);
    for (std::uint32_t i = 0; i < size; ++i) {
      s_.symbols[i] = {s_.ids[i], PairTable::kNoRank, i + 1 < size ? i + 1 : kNone,
                       i > 0 ? i - 1 : kNone};
    }
    for (std::uint32_t i = 0; i < size; ++i)
      look_at(i);
  }

  void run() {
    while (!s_.heap.empty()) {
      const auto idx = static_cast<std::uint32_t>(s_.heap.front());
      prefetch(s_.queues[idx]);
      const auto at = next_of(s_.queues[idx]);
      if (!at) {
        retire(idx);
      } else if (s_.symbols[*at].id >= 0 && s_.symbols[*at].rank == s_.queues[idx].rank) {
        merge(*at);
      }
    }
    s_.ids.clear();
    for (const BpeScratch::Symbol& symbol : s_.symbols) {
      if (symbol.id >= 0) s_.ids.push_back(symbol.id);
    }
  }

 private:
  // One rank's positions are far apart in a very long word: ask for them some merges ahead.
  void prefetch(const BpeScratch::Queue& queue) const {
    constexpr std::size_t kAhead = 12;
    if (queue.head + kAhead < queue.positions.size()) {
      __builtin_prefetch(&s_.symbols[queue.positions[queue.head + kAhead]]);
    }
  }

  static std::optional<std::uint32_t> next_of(BpeScratch::Queue& queue) {
    const bool has_more = queue.head < queue.positions.size();
    if (queue.late.empty()) {
      return has_more ? std::optional(queue.positions[queue.head++]) : std::nullopt;
    }
    if (has_more && queue.positions[queue.head] < queue.late.front()) {
      return queue.positions[queue.head++];
    }
    std::ranges::pop_heap(queue.late, std::greater<>());
    const std::uint32_t at = queue.late.back();
    queue.late.pop_back();
    return at;
  }

  // The pair that begins at `at` is new.
  void look_at(std::uint32_t at) {
    BpeScratch::Symbol& symbol = s_.symbols[at];
    symbol.rank = symbol.next == kNone ? PairTable::kNoRank
                                       : pairs_.find(symbol.id, s_.symbols[symbol.next].id).rank;
    if (symbol.rank == PairTable::kNoRank) return;
    std::uint32_t& idx = s_.queue_of_rank[symbol.rank];
    if (idx == kNone) idx = open(symbol.rank);
    BpeScratch::Queue& queue = s_.queues[idx];
    if (queue.head == queue.positions.size() || queue.positions.back() < at) {
      queue.positions.push_back(at);
    } else {
      queue.late.push_back(at);
      std::ranges::push_heap(queue.late, std::greater<>());
    }
  }

  void merge(std::uint32_t at) {
    BpeScratch::Symbol& left = s_.symbols[at];
    BpeScratch::Symbol& right = s_.symbols[left.next];
    left.id = pairs_.find(left.id, right.id).id;
    right.id = -1;
    left.next = right.next;
    if (left.next != kNone) s_.symbols[left.next].previous = at;
    if (left.previous != kNone) look_at(left.previous);
    look_at(at);
  }

  std::uint32_t open(std::uint32_t rank) {
    if (s_.free_queues.empty()) {
      s_.free_queues.push_back(static_cast<std::uint32_t>(s_.queues.size()));
      s_.queues.emplace_back();
    }
    const std::uint32_t idx = s_.free_queues.back();
    s_.free_queues.pop_back();
    s_.queues[idx].rank = rank;
    s_.heap.push_back((std::uint64_t{rank} << 32U) | idx);
    std::ranges::push_heap(s_.heap, std::greater<>());
    return idx;
  }

  void retire(std::uint32_t idx) {
    BpeScratch::Queue& queue = s_.queues[idx];
    s_.queue_of_rank[queue.rank] = kNone;
    queue.positions.clear();
    queue.head = 0;
    s_.free_queues.push_back(idx);
    std::ranges::pop_heap(s_.heap, std::greater<>());
    s_.heap.pop_back();
  }

  const PairTable& pairs_;
  BpeScratch& s_;
};

}  // namespace

void Bpe::merge_long(BpeScratch& scratch) const {
  Merger(pairs_, num_ranks_, scratch).run();
}

}  // namespace graft::tokenizer
