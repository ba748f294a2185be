#include "graft/tokenizer/model/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "graft/base/error.h"
#include "graft/tokenizer/steps/unicode.h"

namespace graft::tokenizer {
namespace {

// Score of an unknown character below the worst token (SentencePiece's constant).
constexpr double kUnknownPenalty = 10.0;

// Marks a character outside the vocabulary in the Viterbi nodes.
constexpr TokenId kUnknown = std::numeric_limits<TokenId>::max();

ByteTrie trie_of(const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string_view, std::int32_t>> entries;
  for (std::size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (vocabulary.is_plain(id)) entries.emplace_back(vocabulary.token(id), id);
  }
  return ByteTrie(std::move(entries));
}

double worst_score(const std::vector<double>& scores, const Vocabulary& vocabulary) {
  double worst = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (std::isnan(scores[i])) {
      fail("token ", i, " \"", vocabulary.token(id), "\": the score is NaN");
    }
    if (vocabulary.type(id) != formats::TokenType::Unused) worst = std::min(worst, scores[i]);
  }
  return worst;
}

}  // namespace

Unigram::Unigram(const ModelSpec& spec, const Vocabulary& vocabulary)
    : byte_fallback_(spec.byte_fallback),
      unk_id_(spec.unk_id.value_or(-1)),
      bytes_(byte_ids(vocabulary, false)),
      scores_(spec.scores),
      unknown_score_(worst_score(spec.scores, vocabulary) - kUnknownPenalty),
      trie_(trie_of(vocabulary)) {}

void Unigram::find_best(std::string_view word, std::vector<UnigramScratch::Node>& nodes) const {
  nodes.assign(word.size() + 1, {0.0, 0, -1});
  for (std::size_t at = 0; at < word.size();) {
    const double so_far = nodes[at].score;
    const std::size_t character = first_character(word.substr(at)).bytes;
    bool has_single = false;
    const auto offer = [&](std::size_t length, TokenId id, double score) {
      UnigramScratch::Node& node = nodes[at + length];
      if (node.id < 0 || so_far + score > node.score) node = {so_far + score, at, id};
    };
    trie_.prefixes(word.substr(at), [&](std::size_t length, TokenId id) {
      offer(length, id, scores_[static_cast<std::size_t>(id)]);
      has_single = has_single || length == character;
    });
    if (!has_single) offer(character, kUnknown, unknown_score_);
    at += character;
  }
}

void Unigram::push_unknown(std::string_view text, std::vector<TokenId>& out) const {
  const auto is_missing = [this](char c) { return bytes_[static_cast<std::uint8_t>(c)] < 0; };
  if (byte_fallback_ && std::ranges::none_of(text, is_missing)) {
    for (const char c : text)
      out.push_back(bytes_[static_cast<std::uint8_t>(c)]);
  } else if (unk_id_ >= 0) {
    out.push_back(unk_id_);
  }
}

void Unigram::encode(std::string_view word,
                     UnigramScratch& scratch,
                     std::vector<TokenId>& out) const {
  find_best(word, scratch.nodes);
  // Walk the best path backwards and reverse its links: `begin` of a node becomes the end of the
  // next token.
  std::vector<UnigramScratch::Node>& nodes = scratch.nodes;
  std::size_t end = word.size();
  std::size_t after = word.size();
  TokenId after_id = -1;
  while (end > 0) {
    const UnigramScratch::Node node = nodes[end];
    nodes[end].begin = after;
    nodes[end].id = after_id;
    after = end;
    after_id = node.id;
    end = node.begin;
  }
  // Consecutive unknown characters become one unknown token.
  TokenId id = after_id;
  std::size_t begin = 0;
  std::size_t unknown_begin = 0;
  bool is_unknown = false;
  for (std::size_t at = after; begin < word.size();) {
    if (id != kUnknown && is_unknown) {
      push_unknown(word.substr(unknown_begin, begin - unknown_begin), out);
    }
    if (id == kUnknown && !is_unknown) unknown_begin = begin;
    if (id != kUnknown) out.push_back(id);
    is_unknown = id == kUnknown;
    begin = at;
    id = nodes[at].id;
    at = nodes[at].begin;
  }
  if (is_unknown) push_unknown(word.substr(unknown_begin), out);
}

}  // namespace graft::tokenizer
