// Requests that the server understands, and what becomes of them when a wire, a bug or somebody on
// purpose changes them. The same number gives the same bytes on every machine.

#pragma once

#include <cstdint>
#include <string>

namespace graft::tests {

// Bytes to send to a server of the model "sprout": one of its paths with a small question, changed
// in its bytes or in the values of its JSON. A few come out as good as they were.
std::string mutated_request(std::uint64_t number);

// So many lists in lists.
std::string nested_lists(std::size_t depth);

}  // namespace graft::tests
