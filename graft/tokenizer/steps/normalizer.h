// The normaliser of a tokenizer: Unicode forms and replacements, before a text is split.
// Bytes that are no UTF-8 pass unchanged.

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
  // Throws Error when a pattern is no regular expression, or a table of replacements is broken.
  explicit Normalizer(const std::vector<NormalizerStep>& steps);

  // What the calls of one thread reuse.
  struct Scratch {
    std::string text;
    std::string next;
  };

  // Points to `text` itself where nothing changes, into `scratch` otherwise.
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
