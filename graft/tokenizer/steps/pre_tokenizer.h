// The pre-tokenizer: splits a text into pieces, step by step, which the model encodes one by one.
// Pieces are passed on as they are found; nothing is stored.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/regex.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

// Receives the pieces in order. The texts are valid during the call only.
//
// The sink may cache the output of a piece between two steps, because pieces repeat: emit_cached()
// is called before the remaining steps, cache() after them.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void piece(std::string_view text) = 0;
  // Emits the cached output of `text` after `num_steps` steps; false on a miss.
  virtual bool emit_cached(std::string_view text, std::size_t num_steps) = 0;
  // The current size of the output. cache() stores the output since `mark` as that of `text`.
  virtual std::size_t mark() const = 0;
  virtual void cache(std::string_view text, std::size_t num_steps, std::size_t mark) = 0;
};

class PreTokenizer {
 public:
  // Throws Error for an invalid regular expression.
  explicit PreTokenizer(const std::vector<PreTokenizerStep>& steps);

  // `is_first`: the text is the start of the input of encode(). Invalid UTF-8 bytes match nothing.
  void run(std::string_view text, bool is_first, RegexScratch& scratch, PieceSink& sink) const;

 private:
  struct Step {
    PreTokenizerStep spec;
    std::vector<Regex> regex;  // one for Split and Threes
  };
  // A piece between two steps.
  struct Piece {
    std::string_view text;
    bool is_first = false;
    bool is_utf8 = true;
  };
  class Run;

  std::vector<Step> steps_;
};

}  // namespace graft::tokenizer
