// The exact top-k of a row of scores, with ties by position.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace graft::ops::cpu {

// Writes the positions of the out.size() highest scores, ascending; of equal scores the earlier
// positions. -1 after the last one when there are fewer scores. Zeros of both signs are equal; NaN
// of positive sign ranks first, of negative sign last. `keys` is scratch memory.
void select_top_positions(std::span<const float> scores,
                          std::vector<std::uint32_t>& keys,
                          std::span<std::int32_t> out);

}  // namespace graft::ops::cpu
