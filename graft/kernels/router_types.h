// How an MoE router scores and selects experts.

#pragma once

#include <cstdint>

namespace graft::kernels {

// From logits to the scores of the experts.
enum class RouterScoring : std::uint8_t { Softmax, Sigmoid };

// Greedy: the best experts. GroupLimitedGreedy: the best of the best groups, a group counting as
// much as its best expert. NoauxTc: the same with a correction bias for the selection, a group
// counting as much as its two best.
enum class RouterMethod : std::uint8_t { Greedy, GroupLimitedGreedy, NoauxTc };

}  // namespace graft::kernels
