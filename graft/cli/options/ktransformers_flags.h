// Compatibility with the command line of KTransformers' local_chat.

#pragma once

#include <string>
#include <vector>

namespace graft::cli {

// Translates KTransformers' flags in the arguments of `graft chat` to graft's; other arguments are
// unchanged. Throws Error for an invalid value.
std::vector<std::string> translate_ktransformers(const std::vector<std::string>& arguments);

}  // namespace graft::cli
