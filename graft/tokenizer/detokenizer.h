// Tokens of one answer to text, as they come. What is given out is final: never half a UTF-8
// character, never the beginning of a stop string that may still be completed.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graft/tokenizer/tokenizer.h"

namespace graft::tokenizer {

struct DetokenizerOptions {
  std::vector<std::string> stops = {};  // the earliest in the text ends it and is not shown
  bool keep_stop = false;               // show the stop string that ended it
  bool keep_special = false;            // show special tokens
};

class Detokenizer {
 public:
  // The tokenizer must outlive it. `prompt_is_empty`: the answer begins the text, so what the
  // tokenizer puts before a text (a space) is taken off.
  explicit Detokenizer(const Tokenizer& tokenizer,
                       DetokenizerOptions options = {},
                       bool prompt_is_empty = false);

  // The text that became certain by this token; empty once stopped.
  std::string push(TokenId id);
  // The end of the answer: what was held back. Bytes that are no UTF-8 become U+FFFD, one for each
  // longest broken piece, as the Unicode standard advises.
  std::string finish();

  // Stop strings from here on; text that was given out is not searched again.
  void set_stops(std::vector<std::string> stops) { options_.stops = std::move(stops); }
  // Index of the stop string that was found.
  std::optional<std::size_t> stop() const { return stop_; }

 private:
  void strip_start();
  std::string release(bool is_end);

  const Tokenizer* tokenizer_;
  DetokenizerOptions options_;
  std::size_t num_strips_;  // how often what stands before a text may still be taken off
  std::string bytes_;       // of an unfinished character
  std::string held_;        // whole characters that may begin a stop string
  std::optional<std::size_t> stop_;
};

}  // namespace graft::tokenizer
