// Cache of the ids of words, for one thread. Direct-mapped with a fixed size: a colliding word
// replaces the old one. Words of more than 29 bytes or 8 tokens are not cached.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

class WordCache {
 public:
  WordCache() : entries_(kNumEntries) {}

  static bool fits(std::string_view word) { return word.size() <= kMaxBytes; }

  // `step` is the number of pre-tokenizer steps applied to the word, and part of the key: the
  // remaining steps may split it further.
  static std::uint64_t hash(std::string_view word, std::size_t step) {
    std::uint64_t value = word.size() * 256 + step;
    std::size_t at = 0;
    for (; at + 8 <= word.size(); at += 8)
      value = mixed(value, load<std::uint64_t>(word.data() + at));
    if (at < word.size()) value = mixed(value, load_few(word.data() + at, word.size() - at));
    return value;
  }

  // Empty on a miss: every word has at least one id.
  std::span<const TokenId> find(std::string_view word, std::size_t step, std::uint64_t hash) const {
    const Entry& entry = entries_[hash >> kShift];
    if (entry.num_bytes != word.size() || entry.step != static_cast<std::uint8_t>(step) ||
        !is_equal(entry.bytes.data(), word.data(), word.size())) {
      return {};
    }
    return {entry.ids.data(), entry.num_ids};
  }

  void insert(std::string_view word,
              std::size_t step,
              std::uint64_t hash,
              std::span<const TokenId> ids) {
    if (ids.empty() || ids.size() > kMaxIds) return;
    Entry& entry = entries_[hash >> kShift];
    entry.num_bytes = static_cast<std::uint8_t>(word.size());
    entry.step = static_cast<std::uint8_t>(step);
    entry.num_ids = static_cast<std::uint8_t>(ids.size());
    std::memcpy(entry.bytes.data(), word.data(), word.size());
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
  }

 private:
  // 2^15 entries of one cache line are 2 MiB per thread and hold the words of most texts.
  static constexpr int kLogEntries = 15;
  static constexpr std::size_t kNumEntries = std::size_t{1} << kLogEntries;
  static constexpr int kShift = 64 - kLogEntries;
  static constexpr std::size_t kMaxBytes = 29;
  static constexpr std::size_t kMaxIds = 8;

  struct alignas(64) Entry {
    std::uint8_t num_bytes = 0;
    std::uint8_t num_ids = 0;
    std::uint8_t step = 0;
    std::array<char, kMaxBytes> bytes{};
    std::array<TokenId, kMaxIds> ids{};
  };
  static_assert(sizeof(Entry) == 64);

  template <class Value>
  static Value load(const char* from) {
    Value value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  // Loads 1 to 7 bytes, some of them twice, which avoids a memcpy call of variable length.
  static std::uint64_t load_few(const char* from, std::size_t bytes) {
    if (bytes >= 4) {
      return load<std::uint32_t>(from) |
             (std::uint64_t{load<std::uint32_t>(from + bytes - 4)} << 32U);
    }
    const auto byte = [from](std::size_t i) {
      return std::uint32_t{static_cast<std::uint8_t>(from[i])};
    };
    return byte(0) | (byte(bytes / 2) << 8U) | (byte(bytes - 1) << 16U);
  }
  static bool is_equal(const char* a, const char* b, std::size_t bytes) {
    std::size_t at = 0;
    for (; at + 8 <= bytes; at += 8) {
      if (load<std::uint64_t>(a + at) != load<std::uint64_t>(b + at)) return false;
    }
    return at == bytes || load_few(a + at, bytes - at) == load_few(b + at, bytes - at);
  }
  static std::uint64_t mixed(std::uint64_t value, std::uint64_t word) {
    value = (value ^ word) * 0x9E3779B97F4A7C15U;
    return value ^ (value >> 29U);
  }

  std::vector<Entry> entries_;
};

}  // namespace graft::tokenizer
