// The pre-tokenizer: a text becomes pieces, step after step, which the model then encodes one by
// one. Pieces are handed on as they are found; nothing is stored.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/regex.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// Takes the pieces in order. They are valid during the call only.
//
// It may remember what came of a piece that was between two steps, for such pieces come again: it
// is asked before a piece goes on and told when it is done.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void piece(std::string_view text) = 0;
  // Whether it did again what came of `text` after so many steps.
  virtual bool repeat(std::string_view text, std::size_t num_steps) = 0;
  // How much there is so far, and: what came since then came of `text`.
  virtual std::size_t mark() const = 0;
  virtual void remember(std::string_view text, std::size_t num_steps, std::size_t mark) = 0;
};

class PreTokenizer {
 public:
  // Throws Error when a pattern is no regular expression.
  explicit PreTokenizer(const std::vector<PreTokenizerStep>& steps);

  // `is_first`: the text begins what was given to encode. Bytes that are no UTF-8 match nothing.
  void run(std::string_view text, bool is_first, RegexScratch& scratch, PieceSink& sink) const;

 private:
  struct Step {
    PreTokenizerStep spec;
    std::vector<Regex> regex;  // one for Split
  };
  // A piece on its way through the steps.
  struct Piece {
    std::string_view text;
    bool is_first = false;
    bool is_utf8 = true;
  };
  class Run;

  std::vector<Step> steps_;
};

}  // namespace graft::tokenizer
