// Flags of KTransformers, vLLM and llama.cpp in `graft chat`, `run` and `serve`: translated into
// graft's, or refused with graft's way. In every command `--max_new_tokens` is `--max-new-tokens`.

#pragma once

#include <string>
#include <vector>

namespace graft::cli {

// `arguments` begin with the command. Throws Error for a flag or a value that graft cannot follow.
std::vector<std::string> translate_flags(const std::vector<std::string>& arguments);

}  // namespace graft::cli
