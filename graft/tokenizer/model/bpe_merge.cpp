#include "graft/tokenizer/model/bpe_merge.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>

namespace graft::tokenizer {
namespace {

using Symbols = std::span<const TokenId>;
using Tokens = std::vector<MergedToken>;

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// Up to this many symbols, scanning all pairs for the best is faster than queues.
constexpr std::size_t kMaxShort = 128;
constexpr std::uint32_t kPositionBits = 7;
static_assert(kMaxShort == std::size_t{1} << kPositionBits);

// Rank and position are packed into 31 bits; no known vocabulary has more ranks.
constexpr std::uint32_t kMaxPackedRanks = (std::uint32_t{1} << (31 - kPositionBits)) - 1;

// Merges up to kMaxShort symbols in arrays of fixed size. The key of a pair is its rank, then its
// position, so the minimum key is the pair to merge. Keys are signed because SSE2 compares signed
// integers only.
class ShortMerger {
 public:
  ShortMerger(const PairTable& pairs, Symbols symbols)
      : pairs_(pairs),
        size_(symbols.size()),
        num_keys_((symbols.size() + 2 * kLanes - 1) / (2 * kLanes) * (2 * kLanes)) {
    for (std::size_t i = 0; i < size_; ++i) {
      ids_[i] = symbols[i];
      next_[i] = static_cast<std::uint8_t>(i + 1);
      previous_[i] = static_cast<std::uint8_t>(i - 1);
    }
    std::fill(keys_.begin() + static_cast<std::ptrdiff_t>(size_ - 1),
              keys_.begin() + static_cast<std::ptrdiff_t>(num_keys_), kNoKey);
    for (std::size_t i = 0; i + 1 < size_; ++i)
      update_pair(i, i + 1);
  }

  void run(Tokens& out) {
    while (true) {
      const std::int32_t best = min_key();
      if (best == kNoKey) break;
      merge(static_cast<std::uint32_t>(best) & (kMaxShort - 1));
    }
    for (std::size_t i = 0; i < size_; i = next_[i])
      out.push_back({ids_[i], static_cast<std::uint32_t>(next_[i] - i)});
  }

 private:
  static constexpr std::size_t kLanes = 4;
  using Vector [[gnu::vector_size(kLanes * sizeof(std::int32_t))]] = std::int32_t;

  static constexpr std::int32_t kNoKey = std::numeric_limits<std::int32_t>::max();

  std::int32_t min_key() const {
    // Two independent minima, to overlap their latency.
    Vector first = vector_at(0);
    Vector second = vector_at(kLanes);
    for (std::size_t i = 2 * kLanes; i < num_keys_; i += 2 * kLanes) {
      first = min(first, vector_at(i));
      second = min(second, vector_at(i + kLanes));
    }
    first = min(first, second);
    first = min(first, Vector{first[2], first[3], first[2], first[3]});
    first = min(first, Vector{first[1], first[1], first[1], first[1]});
    return first[0];
  }

  static Vector min(Vector a, Vector b) { return a < b ? a : b; }

  Vector vector_at(std::size_t i) const {
    Vector vector;
    std::memcpy(&vector, &keys_[i], sizeof(vector));
    return vector;
  }

  void update_pair(std::size_t at, std::size_t right) {
    const PairMerge merge = pairs_.find(ids_[at], ids_[right]);
    keys_[at] = merge.rank == PairTable::kNoRank
                    ? kNoKey
                    : static_cast<std::int32_t>((merge.rank << kPositionBits) | at);
    merged_ids_[at] = merge.id;
  }

  void merge(std::size_t at) {
    const std::size_t right = next_[at];
    const std::size_t after = next_[right];
    ids_[at] = merged_ids_[at];
    next_[at] = static_cast<std::uint8_t>(after);
    keys_[right] = kNoKey;
    keys_[at] = kNoKey;
    if (after < size_) {
      previous_[after] = static_cast<std::uint8_t>(at);
      update_pair(at, after);
    }
    if (at > 0) update_pair(previous_[at], at);
  }

  const PairTable& pairs_;
  std::size_t size_;
  std::size_t num_keys_;  // rounded up to a multiple of 2 * kLanes
  alignas(16) std::array<std::int32_t, kMaxShort> keys_;
  std::array<TokenId, kMaxShort> ids_;
  std::array<TokenId, kMaxShort> merged_ids_;  // merged id of the pair that begins here
  std::array<std::uint8_t, kMaxShort> next_;
  std::array<std::uint8_t, kMaxShort> previous_;
};

// Merges many symbols with one queue of positions per rank. A heap of all pairs would cost n log n
// random memory accesses; this heap holds only the ranks that occur, and each queue its positions
// from left to right.
class QueueMerger {
 public:
  QueueMerger(const PairTable& pairs,
              std::uint32_t num_ranks,
              Symbols symbols,
              MergeScratch& scratch)
      : pairs_(pairs), s_(scratch) {
    const auto size = static_cast<std::uint32_t>(symbols.size());
    s_.queue_of_rank.resize(num_ranks, kNone);
    s_.symbols.resize(size);
    for (std::uint32_t i = 0; i < size; ++i) {
      s_.symbols[i] = {symbols[i], PairTable::kNoRank, i + 1 < size ? i + 1 : kNone,
                       i > 0 ? i - 1 : kNone};
    }
    for (std::uint32_t i = 0; i < size; ++i)
      update_pair(i);
  }

  void run(Tokens& out) {
    while (!s_.heap.empty()) {
      const auto idx = static_cast<std::uint32_t>(s_.heap.front());
      prefetch(s_.queues[idx]);
      const auto at = next_of(s_.queues[idx]);
      if (!at) {
        close(idx);
      } else if (s_.symbols[*at].id >= 0 && s_.symbols[*at].rank == s_.queues[idx].rank) {
        merge(*at);
      }
    }
    const auto size = static_cast<std::uint32_t>(s_.symbols.size());
    for (std::uint32_t i = 0; i < size;) {
      const std::uint32_t next = std::min(s_.symbols[i].next, size);
      out.push_back({s_.symbols[i].id, next - i});
      i = next;
    }
  }

 private:
  // The positions of one rank are far apart in a long word: prefetch some merges ahead.
  void prefetch(const MergeScratch::Queue& queue) const {
    constexpr std::size_t kAhead = 12;
    if (queue.head + kAhead < queue.positions.size()) {
      __builtin_prefetch(&s_.symbols[queue.positions[queue.head + kAhead]]);
    }
  }

  static std::optional<std::uint32_t> next_of(MergeScratch::Queue& queue) {
    const bool has_more = queue.head < queue.positions.size();
    if (queue.out_of_order.empty()) {
      return has_more ? std::optional(queue.positions[queue.head++]) : std::nullopt;
    }
    if (has_more && queue.positions[queue.head] < queue.out_of_order.front()) {
      return queue.positions[queue.head++];
    }
    std::ranges::pop_heap(queue.out_of_order, std::greater<>());
    const std::uint32_t at = queue.out_of_order.back();
    queue.out_of_order.pop_back();
    return at;
  }

  // Looks up the new pair that begins at `at` and queues it.
  void update_pair(std::uint32_t at) {
    MergeScratch::Symbol& symbol = s_.symbols[at];
    symbol.rank = symbol.next == kNone ? PairTable::kNoRank
                                       : pairs_.find(symbol.id, s_.symbols[symbol.next].id).rank;
    if (symbol.rank == PairTable::kNoRank) return;
    std::uint32_t& idx = s_.queue_of_rank[symbol.rank];
    if (idx == kNone) idx = open(symbol.rank);
    MergeScratch::Queue& queue = s_.queues[idx];
    if (queue.head == queue.positions.size() || queue.positions.back() < at) {
      queue.positions.push_back(at);
    } else {
      queue.out_of_order.push_back(at);
      std::ranges::push_heap(queue.out_of_order, std::greater<>());
    }
  }

  void merge(std::uint32_t at) {
    MergeScratch::Symbol& left = s_.symbols[at];
    MergeScratch::Symbol& right = s_.symbols[left.next];
    left.id = pairs_.find(left.id, right.id).id;
    right.id = -1;
    left.next = right.next;
    if (left.next != kNone) s_.symbols[left.next].previous = at;
    if (left.previous != kNone) update_pair(left.previous);
    update_pair(at);
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

  void close(std::uint32_t idx) {
    MergeScratch::Queue& queue = s_.queues[idx];
    s_.queue_of_rank[queue.rank] = kNone;
    queue.positions.clear();
    queue.head = 0;
    s_.free_queues.push_back(idx);
    std::ranges::pop_heap(s_.heap, std::greater<>());
    s_.heap.pop_back();
  }

  const PairTable& pairs_;
  MergeScratch& s_;
};

// Merges a long word from left to right, one window of symbols at a time. The last tokens of a
// window may change with the symbols that follow, so they are dropped and the next window begins
// there.
//
// Why the result equals merging the whole word: merging always takes the minimum (rank, position)
// of all pairs. Consider a range of symbols that no merge crosses: the merges inside it happen in
// the same order as when the range is merged alone. Now take a sequence of tokens in which every
// two neighbours, merged alone, remain these two tokens. Suppose merging the whole word crosses a
// boundary between two of them, and take the first such merge. Until then the range of these two
// tokens evolved exactly as it does alone, so the same merge would happen there too: a
// contradiction. Neighbours within a window satisfy the condition by the same argument; the two
// tokens at a cut are merged alone to check it.
class WindowMerger {
 public:
  WindowMerger(const PairTable& pairs,
               std::uint32_t num_ranks,
               Symbols symbols,
               MergeScratch& scratch)
      : pairs_(pairs), num_ranks_(num_ranks), symbols_(symbols), s_(scratch) {}

  // Leaves the tokens in scratch.merged.
  void run() {
    s_.merged.clear();
    // Invalid cuts cost time. When merges reach too far for windows, merge the whole word instead.
    std::size_t work_left = 4 * symbols_.size();
    while (at_ < symbols_.size()) {
      const std::size_t size = std::min(size_, symbols_.size() - at_);
      const bool is_last = at_ + size == symbols_.size();
      if (!is_repeated(size)) {
        if (work_left < size) {
          s_.merged.clear();
          merge(symbols_, s_.merged);
          return;
        }
        work_left -= size;
        seen_size_ = 0;
        s_.window.clear();
        merge(symbols_.subspan(at_, size), s_.window);
        if (!is_valid_cut()) {
          back_up();
          continue;
        }
      }
      accept_window(size, is_last);
    }
  }

 private:
  // Minimum window in symbols. Larger windows make each merge slower, smaller ones repeat more
  // work.
  static constexpr std::size_t kWindow = 64;
  // Tokens at the end of a window that are merged again with the next window.
  static constexpr std::size_t kOverlap = 2;
  // The window shrinks when it yields this many tokens.
  static constexpr std::size_t kManyTokens = 32;

  void merge(Symbols symbols, Tokens& out) const {
    if (symbols.size() <= kMaxShort && num_ranks_ <= kMaxPackedRanks) {
      ShortMerger(pairs_, symbols).run(out);
    } else {
      QueueMerger(pairs_, num_ranks_, symbols, s_).run(out);
    }
  }

  std::size_t last_size() const { return s_.merged.empty() ? 0 : s_.merged.back().num_symbols; }

  // Whether the last token and the window have the same symbols as when scratch.window was merged,
  // so that its tokens can be reused: always true in a run of one letter.
  bool is_repeated(std::size_t size) const {
    const std::size_t before = last_size();
    if (size != seen_size_ || before != seen_before_) return false;
    const auto now = symbols_.subspan(at_ - before, before + size);
    return std::ranges::equal(now, symbols_.subspan(seen_at_ - before, before + size));
  }

  // Whether the last accepted token and the first of the window stay separate when merged alone.
  bool is_valid_cut() const {
    if (s_.merged.empty()) return true;
    const std::size_t before = last_size();
    s_.pair.clear();
    merge(symbols_.subspan(at_ - before, before + s_.window.front().num_symbols), s_.pair);
    return s_.pair.front().num_symbols == before;
  }

  // The last accepted tokens are wrong: drop them and retry with a larger window.
  void back_up() {
    for (std::size_t i = 0; i < num_back_ && !s_.merged.empty(); ++i) {
      at_ -= s_.merged.back().num_symbols;
      s_.merged.pop_back();
    }
    num_back_ *= 2;
    size_ *= 2;
  }

  void accept_window(std::size_t size, bool is_last) {
    std::size_t num_taken = s_.window.size();
    std::size_t end = size;
    for (std::size_t i = 0; i < kOverlap && !is_last && num_taken > 0; ++i)
      end -= s_.window[--num_taken].num_symbols;
    if (!is_last && end < size / 2) {
      size_ *= 2;  // the window has few, long tokens
      return;
    }
    seen_at_ = at_;
    seen_before_ = last_size();
    seen_size_ = size;
    s_.merged.insert(s_.merged.end(), s_.window.begin(),
                     s_.window.begin() + static_cast<std::ptrdiff_t>(num_taken));
    at_ += end;
    num_back_ = kOverlap;
    if (num_taken >= kManyTokens && size_ > kWindow) size_ /= 2;
  }

  const PairTable& pairs_;
  std::uint32_t num_ranks_;
  Symbols symbols_;
  MergeScratch& s_;
  std::size_t at_ = 0;  // begin of the next window
  std::size_t size_ = kWindow;
  std::size_t num_back_ = kOverlap;
  // Position and size of the symbols behind scratch.window, and the size of the token before it;
  // seen_size_ 0: not valid.
  std::size_t seen_at_ = 0;
  std::size_t seen_before_ = 0;
  std::size_t seen_size_ = 0;
};

}  // namespace

void merge_symbols(const PairTable& pairs,
                   std::uint32_t num_ranks,
                   MergeScratch& scratch,
                   std::vector<TokenId>& ids) {
  if (ids.size() < 2) return;
  if (ids.size() <= kMaxShort && num_ranks <= kMaxPackedRanks) {
    scratch.merged.clear();
    ShortMerger(pairs, ids).run(scratch.merged);
  } else {
    WindowMerger(pairs, num_ranks, ids, scratch).run();
  }
  ids.resize(scratch.merged.size());
  std::ranges::transform(scratch.merged, ids.begin(), &MergedToken::id);
}

}  // namespace graft::tokenizer
