// Command lines written for KTransformers' local_chat keep working.

#pragma once

#include <string>
#include <vector>

namespace graft::cli {

// The arguments of `graft chat` with KTransformers' names and values turned into ours. Others stay
// as they are. Throws Error for a value that makes no sense.
std::vector<std::string> translate_ktransformers(const std::vector<std::string>& arguments);

}  // namespace graft::cli
