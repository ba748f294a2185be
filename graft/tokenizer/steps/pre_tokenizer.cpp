#include "graft/tokenizer/steps/pre_tokenizer.h"

#include <optional>

#include "graft/tokenizer/steps/unicode.h"

namespace graft::tokenizer {
namespace {

using PreTokenizerKind = PreTokenizerStep::Kind;

// A match of the pattern, or the text between two matches.
struct Part {
  std::size_t begin;
  std::size_t end;
  bool is_match;
};

// Combines parts into pieces according to a SplitBehavior; calls emit(begin, end) for each piece.
template <class Emit>
class SplitMerger {
 public:
  SplitMerger(SplitBehavior behavior, Emit emit) : behavior_(behavior), emit_(emit) {}

  void add(const Part& part) {
    switch (behavior_) {
      case SplitBehavior::Isolated:
        emit_(part.begin, part.end);
        return;
      case SplitBehavior::Removed:
        if (!part.is_match) emit_(part.begin, part.end);
        return;
      case SplitBehavior::Contiguous:
        join(part, held_ && part.is_match == was_match_);
        break;
      case SplitBehavior::MergedWithPrevious:
        join(part, held_ && part.is_match && !was_match_);
        break;
      case SplitBehavior::MergedWithNext:
        join(part, held_ && !part.is_match && was_match_);
        break;
    }
    was_match_ = part.is_match;
  }

  void finish() {
    if (held_) emit_(held_->begin, held_->end);
  }

 private:
  void join(const Part& part, bool extends) {
    if (extends) {
      held_->end = part.end;
      return;
    }
    finish();
    held_ = part;
  }

  SplitBehavior behavior_;
  Emit emit_;
  std::optional<Part> held_;
  bool was_match_ = false;
};

// Splits `text`, which must be valid UTF-8, into matches and the text between them. An empty match
// also splits, except directly after the previous match.
template <class Take>
void find_parts(std::string_view text, const Regex& regex, RegexScratch& scratch, Take take) {
  std::size_t done = 0;
  std::size_t from = 0;
  std::optional<std::size_t> last_end;
  while (from <= text.size()) {
    const auto match = regex.find(text, from, scratch);
    if (!match) break;
    if (match->begin == match->end && last_end == match->end) {
      if (from == text.size()) break;
      from += first_character(text.substr(from)).bytes;
      continue;
    }
    if (match->begin > done) take(Part{done, match->begin, false});
    take(Part{match->begin, match->end, true});
    done = match->end;
    from = match->end;
    last_end = match->end;
  }
  if (done < text.size()) take(Part{done, text.size(), false});
}

}  // namespace

// One run() call. Depth first: a piece passes all steps before the next one is searched.
class PreTokenizer::Run {
 public:
  Run(const std::vector<Step>& steps, RegexScratch& scratch, PieceSink& sink)
      : steps_(steps), scratch_(scratch), sink_(sink) {}

  void process(const Piece& piece, std::size_t idx) {
    if (piece.text.empty()) return;
    // The first piece of a text may be encoded differently from the same text later.
    const bool is_cacheable = idx > 0 && !piece.is_first;
    if (is_cacheable && sink_.emit_cached(piece.text, idx)) return;
    const std::size_t mark = sink_.mark();
    apply_step(piece, idx);
    if (is_cacheable) sink_.cache(piece.text, idx, mark);
  }

 private:
  void apply_step(const Piece& piece, std::size_t idx) {
    if (idx == steps_.size()) {
      sink_.piece(piece.text);
      return;
    }
    const Step& step = steps_[idx];
    switch (step.spec.kind) {
      case PreTokenizerKind::Split:
        split(piece, idx);
        break;
      case PreTokenizerKind::Threes:
        cut_threes(piece, idx);
        break;
      case PreTokenizerKind::PrefixSpace:
        if (piece.text.starts_with(' ')) {
          process(piece, idx + 1);
        } else {
          const std::string text = ' ' + std::string(piece.text);
          process({text, piece.is_first, piece.is_utf8}, idx + 1);
        }
        break;
      case PreTokenizerKind::Metaspace:
        metaspace(piece, idx);
        break;
    }
  }

  // Invalid UTF-8 bytes never match, and patterns do not match across them.
  template <class Take>
  void find_parts_of_bytes(std::string_view text, const Regex& regex, const Take& take) {
    for (std::size_t at = 0; at < text.size(); ++at) {
      const std::size_t valid = valid_prefix(text.substr(at));
      if (valid > 0) {
        find_parts(text.substr(at, valid), regex, scratch_, [&](Part part) {
          take({part.begin + at, part.end + at, part.is_match});
        });
      }
      at += valid;
      if (at < text.size()) take({at, at + 1, false});
    }
  }

  void split(const Piece& piece, std::size_t idx) {
    const Step& step = steps_[idx];
    const auto emit = [&](std::size_t begin, std::size_t end) {
      process({piece.text.substr(begin, end - begin), piece.is_first && begin == 0, piece.is_utf8},
              idx + 1);
    };
    SplitMerger merger(step.spec.behavior, emit);
    const auto take = [&](Part part) {
      part.is_match = part.is_match != step.spec.invert;
      merger.add(part);
    };
    if (piece.is_utf8) {
      find_parts(piece.text, step.regex.front(), scratch_, take);
    } else {
      find_parts_of_bytes(piece.text, step.regex.front(), take);
    }
    merger.finish();
  }

  // "1234567" → "1", "234", "567". A pattern for it would search to the end of the number for every
  // group.
  void cut_threes(const Piece& piece, std::size_t idx) {
    const auto emit = [&](std::size_t begin, std::size_t end) {
      process({piece.text.substr(begin, end - begin), piece.is_first && begin == 0, piece.is_utf8},
              idx + 1);
    };
    const auto take = [&](Part part) {
      std::size_t num_characters = 0;
      const auto next = [&](std::size_t at) {
        return at + first_character(piece.text.substr(at)).bytes;
      };
      for (std::size_t at = part.begin; part.is_match && at < part.end; at = next(at))
        ++num_characters;
      std::size_t begin = part.begin;
      for (std::size_t at = part.begin; num_characters > 3; --num_characters) {
        at = next(at);
        if (num_characters % 3 != 1) continue;
        emit(begin, at);
        begin = at;
      }
      emit(begin, part.end);
    };
    if (piece.is_utf8) {
      find_parts(piece.text, steps_[idx].regex.front(), scratch_, take);
    } else {
      find_parts_of_bytes(piece.text, steps_[idx].regex.front(), take);
    }
  }

  void metaspace(const Piece& piece, std::size_t idx) {
    const PreTokenizerStep& spec = steps_[idx].spec;
    std::string text;
    text.reserve(piece.text.size() + piece.text.size() / 2);
    for (const char c : piece.text) {
      if (c == ' ') {
        text += spec.pattern;
      } else {
        text += c;
      }
    }
    const bool prepends = spec.prepend == PreTokenizerStep::Prepend::Always ||
                          (spec.prepend == PreTokenizerStep::Prepend::First && piece.is_first);
    if (prepends && !text.starts_with(spec.pattern)) text.insert(0, spec.pattern);
    process({text, piece.is_first, piece.is_utf8}, idx + 1);
  }

  const std::vector<Step>& steps_;
  RegexScratch& scratch_;
  PieceSink& sink_;
};

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerStep>& steps) {
  for (const PreTokenizerStep& step : steps) {
    steps_.push_back({step, {}});
    if (step.kind == PreTokenizerKind::Split || step.kind == PreTokenizerKind::Threes)
      steps_.back().regex.emplace_back(step.pattern);
  }
}

void PreTokenizer::run(std::string_view text,
                       bool is_first,
                       RegexScratch& scratch,
                       PieceSink& sink) const {
  const bool is_valid = steps_.empty() || is_utf8(text);
  Run(steps_, scratch, sink).process({text, is_first, is_valid}, 0);
}

}  // namespace graft::tokenizer
