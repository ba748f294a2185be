// For the tests of tokenizers: a small tokenizer of each kind, and random texts.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/error.h"
#include "graft/formats/tokenizer_data.h"
#include "graft/tokenizer/model/vocabulary.h"
#include "graft/tokenizer/steps/unicode.h"

namespace graft::tokenizer::test {

using formats::TokenizerData;
using formats::TokenType;

inline TokenId add_token(TokenizerData& data,
                         const std::string& token,
                         TokenType type = TokenType::Normal) {
  data.tokens.push_back(token);
  data.types.push_back(type);
  return static_cast<TokenId>(data.tokens.size() - 1);
}

// Byte-level BPE with all bytes, a few merges and special tokens.
inline TokenizerData byte_level(const std::string& pre = "llama-bpe") {
  TokenizerData data;
  data.model = "gpt2";
  data.pre = pre;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(static_cast<std::uint8_t>(byte));
    add_token(data, byte_level_encode({&c, 1}));
  }
  for (const std::string_view merge : {"h e", "l l", "he ll", "hell o", "Ġ hello", "Ġ Ġ", "ĠĠ ĠĠ",
                                       "1 2", "12 3", "a a", "aa aa", "Ã ©", "ä ¸", "ä¸ Ń"}) {
    const auto space = merge.find(' ');
    data.merges.emplace_back(merge);
    add_token(data, std::string(merge.substr(0, space)) + std::string(merge.substr(space + 1)));
  }
  data.bos_id = add_token(data, "<|begin|>", TokenType::Control);
  data.eos_id = add_token(data, "<|end|>", TokenType::Control);
  add_token(data, "<tool>", TokenType::UserDefined);
  return data;
}

// SentencePiece BPE with byte fallback, merged by score.
inline TokenizerData sentencepiece() {
  TokenizerData data;
  data.model = "llama";
  data.pre = "default";
  data.unk_id = add_token(data, "<unk>", TokenType::Unknown);
  data.bos_id = add_token(data, "<s>", TokenType::Control);
  data.eos_id = add_token(data, "</s>", TokenType::Control);
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte)
    add_token(data, str("<0x", kDigits[byte / 16], kDigits[byte % 16], '>'), TokenType::Byte);
  for (const std::string_view piece :
       {"he", "ll", "▁he", "hell", "▁hell", "▁hello", "▁▁", "▁▁▁▁", "lo", "aa", "aaa", "▁t", "▁the",
        "th", "▁",  "h",   "e",    "l",     "o",      "t",  "a",    "é",  "中", "1",   "2"})
    add_token(data, std::string(piece));
  for (std::size_t id = 0; id < data.tokens.size(); ++id) {
    data.scores.push_back(data.types[id] == TokenType::Normal ? -static_cast<float>(id) : 0.0F);
  }
  return data;
}

inline TokenizerData unigram() {
  TokenizerData data = sentencepiece();
  data.model = "t5";
  for (std::size_t id = 0; id < data.tokens.size(); ++id)
    data.scores[id] = data.types[id] == TokenType::Normal ? -0.1F * static_cast<float>(id) : 0.0F;
  return data;
}

// Writes a precompiled_charsmap: a double-array trie and the replacement texts.
class CharsmapWriter {
 public:
  explicit CharsmapWriter(const std::map<std::string, std::string>& entries) : units_(1 << 16, 0) {
    for (const auto& [text, replacement] : entries) {
      values_[text] = static_cast<std::uint32_t>(replacements_.size());
      replacements_ += replacement + '\0';
    }
    is_used_.insert(0);
    place("", 0);
  }

  std::string bytes() const {
    const auto trie_bytes = static_cast<std::uint32_t>(units_.size() * sizeof(std::uint32_t));
    std::string out(sizeof(trie_bytes) + trie_bytes, '\0');
    std::memcpy(out.data(), &trie_bytes, sizeof(trie_bytes));
    std::memcpy(out.data() + sizeof(trie_bytes), units_.data(), trie_bytes);
    return out + replacements_;
  }

 private:
  // Writes the children of `prefix`, whose unit is at `at`: one per next byte, and 0 for its value.
  void place(const std::string& prefix, std::uint32_t at) {
    std::set<std::uint8_t> labels;
    for (auto it = values_.lower_bound(prefix); it != values_.end(); ++it) {
      if (!it->first.starts_with(prefix)) break;
      const bool is_end = it->first.size() == prefix.size();
      labels.insert(is_end ? 0 : static_cast<std::uint8_t>(it->first[prefix.size()]));
    }
    std::uint32_t base = 256;
    const auto is_taken = [&](std::uint8_t label) { return is_used_.contains(base ^ label); };
    while (bases_.contains(base) || std::ranges::any_of(labels, is_taken))
      ++base;
    bases_.insert(base);
    for (const std::uint8_t label : labels)
      is_used_.insert(base ^ label);
    units_[at] |= (at ^ base) << 10U;
    for (const std::uint8_t label : labels) {
      if (label == 0) {
        units_[at] |= 1U << 8U;
        units_[base] = values_.at(prefix) | (1U << 31U);
      } else {
        units_[base ^ label] = label;
        place(prefix + static_cast<char>(label), base ^ label);
      }
    }
  }

  std::vector<std::uint32_t> units_;
  std::map<std::string, std::uint32_t> values_;  // offset of the replacement
  std::string replacements_;
  std::set<std::uint32_t> is_used_;
  std::set<std::uint32_t> bases_;
};

// Texts with special meaning for the tokenizers above, and random characters.
inline std::string random_text(std::mt19937_64& random, std::size_t max_characters) {
  constexpr std::array<std::string_view, 24> kKnown = {
      "hello", " hello",  "he",     " ",   "  ", "\n", "aaaa", "a",   "é", "e\u0301", "中", "1",
      "123",   "<|end|>", "<tool>", "<s>", "▁",  "\t", "'s",   "'Ll", "K", "🚀",       "ﬁ",  "."};
  std::string text;
  const std::size_t count = random() % (max_characters + 1);
  for (std::size_t i = 0; i < count; ++i) {
    if (random() % 3 != 0) {
      text += kKnown[random() % kKnown.size()];
      continue;
    }
    const std::array<std::int32_t, 4> limits = {0x80, 0x800, 0x10000, 0x110000};
    const auto code =
        static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(limits[random() % 4]));
    if (code < 0xD800 || code > 0xDFFF) append_utf8(code, text);
  }
  return text;
}

inline std::string random_bytes(std::mt19937_64& random, std::size_t max_bytes) {
  std::string bytes(random() % (max_bytes + 1), '\0');
  for (char& c : bytes)
    c = static_cast<char>(static_cast<std::uint8_t>(random()));
  return bytes;
}

// The message of the Error that `call` throws, empty when it throws none.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace graft::tokenizer::test
