#include "graft/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graft/base/error.h"
#include "graft/tokenizer/spec/spec_gguf.h"
#include "graft/tokenizer/spec/spec_json.h"
#include "graft/tokenizer/steps/decoder.h"
#include "graft/tokenizer/tokenizer_state.h"

namespace graft::tokenizer {
namespace {

// Tokens that end a turn or a text, in addition to those that a file names.
constexpr std::array<std::string_view, 7> kEndTokens = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<｜end▁of▁sentence｜>",
};

// Estimate for reserving memory.
constexpr std::size_t kBytesPerToken = 3;

// Scratch buffers with more elements than this are freed after the call.
constexpr std::size_t kMaxRetained = std::size_t{1} << 18U;

Spec spec_of(const formats::TokenizerData& data,
             const Vocabulary& vocabulary,
             std::span<const formats::PreTokenizerName> names) {
  return data.tokenizer_json.empty() ? spec_from_gguf(data, vocabulary, names)
                                     : spec_from_json(data, vocabulary);
}

std::optional<TokenId> checked(const std::optional<std::int64_t>& id,
                               std::string_view what,
                               const Vocabulary& vocabulary) {
  if (!id) return std::nullopt;
  if (*id < 0 || *id >= static_cast<std::int64_t>(vocabulary.size())) {
    fail(what, " is token ", *id, ", the vocabulary has ", vocabulary.size(), " tokens");
  }
  return static_cast<TokenId>(*id);
}

std::variant<Bpe, Unigram, WordPiece> model_of(const Spec& spec, const Vocabulary& vocabulary) {
  switch (spec.model.kind) {
    case ModelSpec::Kind::Bpe:
      return Bpe(spec.model, vocabulary);
    case ModelSpec::Kind::Unigram:
      return Unigram(spec.model, vocabulary);
    case ModelSpec::Kind::WordPiece:
      break;
  }
  return WordPiece(spec.model, vocabulary);
}

// The added tokens that are matched before (false) or after (true) normalization. The latter are
// normalized themselves.
AddedTokens added_of(const Spec& spec, bool is_normalized, const Normalizer& normalizer) {
  Normalizer::Scratch scratch;
  RegexScratch regex;
  std::vector<AddedToken> tokens;
  for (const AddedToken& token : spec.added_tokens) {
    if (token.normalized != is_normalized) continue;
    tokens.push_back(token);
    if (is_normalized) {
      tokens.back().content = std::string(normalizer.run(token.content, scratch, regex));
    }
  }
  return AddedTokens(std::move(tokens));
}

}  // namespace

Tokenizer::State::State(const formats::TokenizerData& data,
                        std::span<const formats::PreTokenizerName> names)
    : vocabulary(data),
      spec(spec_of(data, vocabulary, names)),
      bytes(decoded_tokens(spec, vocabulary)),
      bos(checked(data.bos_id, "BOS", vocabulary)),
      eos(checked(data.eos_id, "EOS", vocabulary)),
      normalizer_(spec.normalizers),
      added_(added_of(spec, false, normalizer_)),
      added_normalized_(added_of(spec, true, normalizer_)),
      pre_tokenizer_(spec.pre_tokenizers),
      model_(model_of(spec, vocabulary)) {
  const Bpe* bpe = std::get_if<Bpe>(&model_);
  splits_at_spaces_ = bpe != nullptr && bpe->can_split_at_spaces();
  find_end_tokens(data);
  bound = TokenBound(spec, vocabulary, bytes);
  spec.model = {};  // free it: model_ holds the data in its own form
}

void Tokenizer::State::find_end_tokens(const formats::TokenizerData& data) {
  const auto add = [this](std::optional<TokenId> id) {
    if (id && std::ranges::find(end_tokens, *id) == end_tokens.end()) end_tokens.push_back(*id);
  };
  add(eos);
  add(checked(data.eot_id, "end of turn", vocabulary));
  add(checked(data.eom_id, "end of message", vocabulary));
  for (const std::string_view name : kEndTokens) {
    const auto id = vocabulary.find(name);
    if (id && vocabulary.is_special(*id)) add(id);
  }
}

std::unique_ptr<EncodeScratch> Tokenizer::State::acquire_scratch() const {
  const std::lock_guard lock(mutex_);
  if (free_scratch_.empty()) return std::make_unique<EncodeScratch>();
  std::unique_ptr<EncodeScratch> scratch = std::move(free_scratch_.back());
  free_scratch_.pop_back();
  return scratch;
}

void Tokenizer::State::release_scratch(std::unique_ptr<EncodeScratch> scratch) const {
  if (scratch->bpe.ids.capacity() > kMaxRetained) scratch->bpe = {};
  if (scratch->unigram.nodes.capacity() > kMaxRetained) scratch->unigram = {};
  if (scratch->normalizer.text.capacity() > kMaxRetained) scratch->normalizer = {};
  const std::lock_guard lock(mutex_);
  free_scratch_.push_back(std::move(scratch));
}

void Tokenizer::State::encode_word(std::string_view word,
                                   EncodeScratch& scratch,
                                   std::vector<TokenId>& out) const {
  if (const Bpe* bpe = std::get_if<Bpe>(&model_)) {
    bpe->encode(word, scratch.bpe, out);
  } else if (const Unigram* unigram = std::get_if<Unigram>(&model_)) {
    unigram->encode(word, scratch.unigram, out);
  } else {
    std::get<WordPiece>(model_).encode(word, out);
  }
}

// Encodes the words of the pre-tokenizer and appends their ids.
class Tokenizer::State::WordEncoder final : public PieceSink {
 public:
  WordEncoder(const State& state, EncodeScratch& scratch, std::vector<TokenId>& out)
      : state_(state), scratch_(scratch), out_(out) {}

  void piece(std::string_view text) override {
    if (!state_.splits_at_spaces_) {
      state_.encode_word(text, scratch_, out_);
      return;
    }
    // Split before each ▁ that follows another character.
    while (!text.empty()) {
      std::size_t end = 0;
      while (text.substr(end).starts_with(kSpaceMarker))
        end += kSpaceMarker.size();
      end = std::min(text.find(kSpaceMarker, end), text.size());
      word(text.substr(0, end));
      text.remove_prefix(end);
    }
  }

  bool emit_cached(std::string_view text, std::size_t num_steps) override {
    if (!WordCache::fits(text)) return false;
    const auto ids = scratch_.cache.find(text, num_steps, WordCache::hash(text, num_steps));
    for (const TokenId id : ids)  // usually one or two: faster than insert()
      out_.push_back(id);
    return !ids.empty();
  }
  std::size_t mark() const override { return out_.size(); }
  void cache(std::string_view text, std::size_t num_steps, std::size_t mark) override {
    if (!WordCache::fits(text)) return;
    scratch_.cache.insert(text, num_steps, WordCache::hash(text, num_steps),
                          std::span(out_).subspan(mark));
  }

 private:
  void word(std::string_view text) {
    if (emit_cached(text, kSplitWord)) return;
    const std::size_t begin = mark();
    state_.encode_word(text, scratch_, out_);
    cache(text, kSplitWord, begin);
  }

  // Cache key of words that were split at ▁: larger than any number of pre-tokenizer steps.
  static constexpr std::size_t kSplitWord = 255;

  const State& state_;
  EncodeScratch& scratch_;
  std::vector<TokenId>& out_;
};

// Encodes the text between two added tokens.
void Tokenizer::State::encode_segment(std::string_view segment,
                                      bool is_first,
                                      const EncodeOptions& options,
                                      EncodeScratch& scratch,
                                      std::vector<TokenId>& out) const {
  const std::string_view text = normalizer_.run(segment, scratch.normalizer, scratch.regex);
  WordEncoder words(*this, scratch, out);
  added_normalized_.split(
      text, options.parse_special, [&](TokenId id) { out.push_back(id); },
      [&](std::size_t begin, std::size_t end) {
        pre_tokenizer_.run(text.substr(begin, end - begin), is_first && begin == 0, scratch.regex,
                           words);
      });
}

std::vector<TokenId> Tokenizer::State::encode(std::string_view text,
                                              const EncodeOptions& options) const {
  std::vector<TokenId> out;
  out.reserve(text.size() / kBytesPerToken + spec.prefix.size() + spec.suffix.size());
  if (options.add_special) out.insert(out.end(), spec.prefix.begin(), spec.prefix.end());
  std::unique_ptr<EncodeScratch> scratch = acquire_scratch();
  added_.split(
      text, options.parse_special, [&](TokenId id) { out.push_back(id); },
      [&](std::size_t begin, std::size_t end) {
        encode_segment(text.substr(begin, end - begin), begin == 0, options, *scratch, out);
      });
  release_scratch(std::move(scratch));
  if (options.add_special) out.insert(out.end(), spec.suffix.begin(), spec.suffix.end());
  return out;
}

Tokenizer::Tokenizer(const formats::TokenizerData& data,
                     std::span<const formats::PreTokenizerName> names)
    : state_(std::make_unique<const State>(data, names)) {}

Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return state_->encode(text, options);
}

std::int64_t Tokenizer::min_tokens(std::string_view text) const {
  return state_->bound.min_tokens(text);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool keep_special) const {
  std::string text;
  for (const TokenId id : ids) {
    if (!keep_special && is_special(id)) continue;
    text += bytes(id);
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < state_->spec.strip_count; ++i) {
    if (!std::string_view(text).substr(begin).starts_with(state_->spec.strip_start)) break;
    begin += state_->spec.strip_start.size();
  }
  return begin == 0 ? text : text.substr(begin);
}

std::int64_t Tokenizer::vocab_size() const {
  return static_cast<std::int64_t>(state_->vocabulary.size());
}

std::string_view Tokenizer::token(TokenId id) const {
  return state_->vocabulary.contains(id) ? std::string_view(state_->vocabulary.token(id)) : "";
}

std::optional<TokenId> Tokenizer::find(std::string_view token) const {
  return state_->vocabulary.find(token);
}

std::string_view Tokenizer::bytes(TokenId id) const {
  if (!state_->vocabulary.contains(id)) return "";
  return state_->bytes[static_cast<std::size_t>(id)];
}

bool Tokenizer::is_special(TokenId id) const {
  return state_->vocabulary.contains(id) && state_->vocabulary.is_special(id);
}

std::optional<TokenId> Tokenizer::bos() const {
  return state_->bos;
}

std::optional<TokenId> Tokenizer::eos() const {
  return state_->eos;
}

std::span<const TokenId> Tokenizer::end_tokens() const {
  return state_->end_tokens;
}

}  // namespace graft::tokenizer
