// Incremental detokenizer for one response. Returned text is final: it never ends inside a UTF-8
// character or with the beginning of a stop string that may still be completed.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graft/tokenizer/tokenizer.h"

namespace graft::tokenizer {

struct DetokenizerOptions {
  std::vector<std::string> stops = {};  // the first one in the text ends it
  bool keep_stop = false;               // include the stop string that ended the text
  bool keep_special = false;            // include special tokens
};

class Detokenizer {
 public:
  // The tokenizer must outlive the detokenizer. `prompt_is_empty`: the response begins the text, so
  // the prefix that the tokenizer adds to a text (a space) is removed.
  explicit Detokenizer(const Tokenizer& tokenizer,
                       DetokenizerOptions options = {},
                       bool prompt_is_empty = false);

  // Returns the text that this token completes; empty after a stop string.
  std::string push(TokenId id);
  // Call at the end of the response: returns the text that was held back. Invalid UTF-8 becomes
  // U+FFFD, one per maximal subpart, as the Unicode standard recommends.
  std::string finish();

  // Replaces the stop strings; text that was already returned is not searched.
  void set_stops(std::vector<std::string> stops) { options_.stops = std::move(stops); }
  // Index of the stop string that ended the text.
  std::optional<std::size_t> stop() const { return stop_; }

 private:
  void strip_start();
  std::string release(bool is_end);

  const Tokenizer* tokenizer_;
  DetokenizerOptions options_;
  std::size_t num_strips_;  // how many more times the text prefix may be removed
  std::string bytes_;       // of an incomplete character
  std::string held_;        // complete characters that may begin a stop string
  std::optional<std::size_t> stop_;
};

}  // namespace graft::tokenizer
