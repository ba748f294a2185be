// The normalizer of a tokenizer: Unicode normalization forms and replacements, applied before the
// text is split. Invalid UTF-8 bytes are kept.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/regex.h"
#include "graft/tokenizer/spec/spec.h"
#include "graft/tokenizer/steps/charsmap.h"

namespace graft::tokenizer {

class Normalizer {
 public:
  // Throws Error for an invalid regular expression or charsmap.
  explicit Normalizer(const std::vector<NormalizerStep>& steps);

  // Buffers that the calls of one thread reuse.
  struct Scratch {
    std::string text;
    std::string next;
  };

  // The result points into `text` if nothing changed, else into `scratch`.
  std::string_view run(std::string_view text, Scratch& scratch, RegexScratch& regex) const;

 private:
  struct Step {
    NormalizerStep spec;
    std::optional<Regex> regex;
    std::optional<Charsmap> charsmap;
  };
  std::vector<Step> steps_;
};

}  // namespace graft::tokenizer
