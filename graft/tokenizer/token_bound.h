// A lower bound of the number of tokens of a text, from its bytes and the longest token of the
// vocabulary: no token covers more bytes, so that a text that is too long can be refused before it
// is encoded. Steps that can shorten a text weaken the bound or remove it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graft/tokenizer/model/vocabulary.h"
#include "graft/tokenizer/spec/spec.h"

namespace graft::tokenizer {

class TokenBound {
 public:
  TokenBound() = default;  // no bound
  // `bytes`: of each token, by id.
  TokenBound(const Spec& spec, const Vocabulary& vocabulary, const std::vector<std::string>& bytes);

  std::int64_t min_tokens(std::string_view text) const;

 private:
  void add_normalizer(const NormalizerStep& step);
  void remove() { longest_ = 0; }

  std::size_t longest_ = 0;          // bytes of the longest token; 0: no bound
  bool may_remove_blanks_ = false;   // only printable ASCII characters count
  bool may_shrink_unicode_ = false;  // bytes outside ASCII count an eighth
};

}  // namespace graft::tokenizer
