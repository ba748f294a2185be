// Valid requests with random mutations, for robustness tests. Deterministic: the same number gives
// the same bytes on every machine.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace graft::tests {

// The paths of the valid requests.
std::vector<std::string> request_paths();

// A request for `path` to a server of the model "sprout" with mutated bytes or JSON values. A few
// remain valid. `api_key`: empty for none.
std::string mutated_request(std::uint64_t number,
                            const std::string& path,
                            const std::string& api_key = {});

// JSON lists nested `depth` levels deep.
std::string nested_lists(std::size_t depth);

}  // namespace graft::tests
