#include "graft/tokenizer/bpe.h"

#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/tokenizer/test_support.h"

namespace graft::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

// The definition: look through all pairs, merge the best (the leftmost of equal ones), again.
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
    for (const char c : word)
      parts.emplace_back(1, c);
    while (true) {
      double best = 1e29;
      std::size_t at = 0;
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        const double found = rank(parts[i], parts[i + 1]);
        if (found < best) {
          best = found;
          at = i;
        }
      }
      if (best >= 1e29) break;
      parts[at] += parts[at + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    Ids ids;
    for (const std::string& part : parts)
      ids.push_back(*vocabulary.find(part));
    return ids;
  }
};

// A vocabulary of random strings over a few letters: merges in any order, also of tokens that a
// better merge uses, and equal scores.
class RandomVocabulary {
 public:
  explicit RandomVocabulary(std::uint64_t seed) : random_(seed) {
    for (const char* letter : {"a", "b", "c"})
      test::add_token(data_, letter);
    std::set<std::pair<std::string, std::string>> seen;
    for (int i = 0; i < 40; ++i) {
      const std::string left = data_.tokens[random_() % data_.tokens.size()];
      const std::string right = data_.tokens[random_() % data_.tokens.size()];
      if (left.size() + right.size() > 6 || !seen.emplace(left, right).second) continue;
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

 private:
  std::mt19937_64 random_;
  test::TokenizerData data_;
  std::vector<std::pair<std::string, std::string>> merges_;
};

// Words up to 96 symbols go one way, longer ones another.
TEST(Bpe, MergesAsDefined) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    RandomVocabulary vocabulary(seed);
    const Vocabulary tokens(vocabulary.data());
    for (const ModelSpec& spec : {vocabulary.by_merges(), vocabulary.by_score()}) {
      const Bpe bpe(spec, tokens);
      const Reference reference{spec, tokens};
      BpeScratch scratch;
      for (const std::size_t size : {1, 2, 7, 40, 96, 97, 150, 400}) {
        const std::string word = vocabulary.word(size);
        Ids ids;
        bpe.encode(word, scratch, ids);
        EXPECT_EQ(ids, reference.encode(word)) << word << " seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace graft::tokenizer
