// Valid requests with random mutations, for robustness tests. Deterministic: the same number gives
// the same bytes on every machine.

#pragma once

#include <cstdint>
#include <string>

namespace graft::tests {

// A request to a server of the model "sprout" with mutated bytes or JSON values. A few remain
// valid.
std::string mutated_request(std::uint64_t number);

// JSON lists nested `depth` levels deep.
std::string nested_lists(std::size_t depth);

}  // namespace graft::tests
