#include "graft/tokenizer/model/bpe.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/shared_data.h"
#include "graft/testing/tokenizer.h"

namespace graft::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

// The definition of BPE: repeatedly scan all pairs and merge the best, the leftmost of equal ones.
struct Reference {
  ModelSpec spec;
  const Vocabulary& vocabulary;

  double rank(const std::string& left, const std::string& right) const {
    if (spec.merges_by_score) {
      const auto id = vocabulary.find(left + right);
      return id ? -spec.scores[static_cast<std::size_t>(*id)] : 1e30;
    }
    for (std::size_t i = 0; i < spec.merges.size(); ++i) {
      if (spec.merges[i] == std::pair(left, right)) return static_cast<double>(i);
    }
    return 1e30;
  }

  Ids encode(const std::string& word) const {
    std::vector<std::string> parts;
    std::vector<double> ranks;  // of parts[i] and parts[i + 1]
    for (const char c : word)
      parts.emplace_back(1, c);
    for (std::size_t i = 0; i + 1 < parts.size(); ++i)
      ranks.push_back(rank(parts[i], parts[i + 1]));
    while (!ranks.empty()) {
      const auto best = std::ranges::min_element(ranks);
      if (*best >= 1e29) break;
      const auto at = static_cast<std::size_t>(best - ranks.begin());
      parts[at] += parts[at + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      ranks.erase(best);
      if (at > 0) ranks[at - 1] = rank(parts[at - 1], parts[at]);
      if (at < ranks.size()) ranks[at] = rank(parts[at], parts[at + 1]);
    }
    Ids ids;
    for (const std::string& part : parts)
      ids.push_back(*vocabulary.find(part));
    return ids;
  }
};

// A vocabulary of random strings over three letters: merges in any order, also of tokens that a
// lower rank consumes, and equal scores.
class RandomVocabulary {
 public:
  explicit RandomVocabulary(std::uint64_t seed, std::size_t max_bytes = 6) : random_(seed) {
    for (const char* letter : {"a", "b", "c"})
      test::add_token(data_, letter);
    std::set<std::pair<std::string, std::string>> seen;
    for (int i = 0; i < 40; ++i) {
      const std::string left = data_.tokens[random_() % data_.tokens.size()];
      const std::string right = data_.tokens[random_() % data_.tokens.size()];
      if (left.size() + right.size() > max_bytes || !seen.emplace(left, right).second) continue;
      merges_.emplace_back(left, right);
      const bool is_new =
          std::find(data_.tokens.begin(), data_.tokens.end(), left + right) == data_.tokens.end();
      if (is_new) test::add_token(data_, left + right);
    }
    std::shuffle(merges_.begin(), merges_.end(), random_);
  }

  ModelSpec by_merges() const {
    ModelSpec spec;
    spec.merges = merges_;
    return spec;
  }
  ModelSpec by_score() {
    ModelSpec spec;
    spec.merges_by_score = true;
    for (std::size_t i = 0; i < data_.tokens.size(); ++i)
      spec.scores.push_back(-static_cast<double>(random_() % 8));
    return spec;
  }
  const test::TokenizerData& data() const { return data_; }
  std::string word(std::size_t size) {
    std::string out;
    while (out.size() < size)
      out.append(1 + random_() % 4, "abc"[random_() % 3]);
    return out;
  }
  // Runs of one letter, repeated words and random words.
  std::string mixture(std::size_t size) {
    std::string out;
    while (out.size() < size) {
      const std::string part = word(1 + random_() % 9);
      const std::size_t kind = random_() % 3;
      const std::size_t length = 1 + random_() % 500;
      if (kind == 0) out.append(length, part[0]);
      if (kind == 1) out += word(length);
      for (std::size_t i = 0; kind == 2 && i < length; i += part.size())
        out += part;
    }
    return out;
  }

 private:
  std::mt19937_64 random_;
  test::TokenizerData data_;
  std::vector<std::pair<std::string, std::string>> merges_;
};

// Words of up to 128 symbols are merged in one pass, longer ones in windows.
TEST(Bpe, MergesAsDefined) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    RandomVocabulary vocabulary(seed);
    const Vocabulary tokens(vocabulary.data());
    for (const ModelSpec& spec : {vocabulary.by_merges(), vocabulary.by_score()}) {
      const Bpe bpe(spec, tokens);
      const Reference reference{spec, tokens};
      BpeScratch scratch;
      for (const std::size_t size : {1, 2, 7, 40, 127, 128, 129, 150, 400}) {
        const std::string word = vocabulary.word(size);
        Ids ids;
        bpe.encode(word, scratch, ids);
        EXPECT_EQ(ids, reference.encode(word)) << word << " seed " << seed;
      }
    }
  }
}

// Windows must not change the result: tokens longer than a window, merges that depend on symbols
// far to the right, ties.
TEST(Bpe, MergesLongWordsAsDefined) {
  for (std::uint64_t seed = 1; seed <= (kUnderSanitizers ? 8 : 40); ++seed) {
    RandomVocabulary vocabulary(seed, seed % 2 == 0 ? 6 : 300);
    const Vocabulary tokens(vocabulary.data());
    for (const ModelSpec& spec : {vocabulary.by_merges(), vocabulary.by_score()}) {
      const Bpe bpe(spec, tokens);
      const Reference reference{spec, tokens};
      BpeScratch scratch;
      for (const std::string& word : {vocabulary.mixture(2000), vocabulary.word(1000),
                                      std::string(1500, 'a'), std::string(1501, 'b')}) {
        Ids ids;
        bpe.encode(word, scratch, ids);
        EXPECT_EQ(ids, reference.encode(word)) << word << " seed " << seed;
      }
    }
  }
}

// Ranks decrease from letter to letter, so the merges at the beginning of a word depend on its end.
TEST(Bpe, MergesAsDefinedFromFarRight) {
  constexpr int kLetters = 90;
  test::TokenizerData data;
  std::string word;
  for (int i = 0; i < kLetters; ++i) {
    word += static_cast<char>('!' + i);
    test::add_token(data, word.substr(word.size() - 1));
  }
  ModelSpec spec;
  for (int i = kLetters - 2; i >= 0; --i) {
    const std::string pair = word.substr(static_cast<std::size_t>(i), 2);
    spec.merges.emplace_back(pair.substr(0, 1), pair.substr(1));
    test::add_token(data, pair);
  }
  const Vocabulary tokens(data);
  const Bpe bpe(spec, tokens);
  const Reference reference{spec, tokens};
  BpeScratch scratch;
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    std::string text;
    while (text.size() < 2000) {
      const std::size_t begin = random() % 4;
      text += word.substr(begin, word.size() - begin - random() % 4);
    }
    Ids ids;
    bpe.encode(text, scratch, ids);
    EXPECT_EQ(ids, reference.encode(text)) << text;
  }
}

}  // namespace
}  // namespace graft::tokenizer
