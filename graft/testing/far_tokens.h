// For tests: logits of placements that round differently. In the golden checkpoints, which have
// random weights, router scores are often nearly tied. Where rounding selects other experts, the
// logits of that token differ; at most an eighth of the tokens may.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace graft::models::testing {

struct FarTokens {
  std::size_t num_tokens = 0;
  std::size_t num_far = 0;  // with an error above a hundredth of the largest logit

  // Both [tokens, vocab_size], of one prompt.
  void add(const std::vector<float>& want, const std::vector<float>& got, std::size_t vocab_size) {
    if (got.size() != want.size()) return add_all(want.size() / vocab_size);
    double largest = 0;
    for (const float value : want)
      largest = std::max(largest, std::abs(double{value}));
    for (std::size_t first = 0; first < want.size(); first += vocab_size, ++num_tokens) {
      bool is_near = true;
      for (std::size_t i = first; i < first + vocab_size; ++i)
        is_near = is_near && std::abs(double{got[i]} - double{want[i]}) <= 1e-2 * largest;
      num_far += is_near ? 0 : 1;
    }
  }
  // Near a tie a router chooses other experts. A recurrent state carries the difference on.
  std::size_t max_far(bool has_experts, bool has_states = false) const {
    if (!has_experts) return 0;
    return has_states ? num_tokens / 3 : num_tokens / 8;
  }

 private:
  void add_all(std::size_t count) {
    num_tokens += count;
    num_far += count;
  }
};

}  // namespace graft::models::testing
