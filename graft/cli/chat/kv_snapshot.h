// Saves and restores the KV cache of a conversation, so that the next message computes only its own
// tokens in another process.

#pragma once

#include <filesystem>

#include "graft/api/chat_format.h"
#include "graft/api/llm.h"

namespace graft::cli {

// Writes the KV cache of the prompt to a file. Computes the tokens that are not in the prefix
// cache; after Ctrl-C those computed so far are saved. Throws Error.
void save_kv_snapshot(api::LLM& llm,
                      const api::ChatPrompt& prompt,
                      const std::filesystem::path& path);

// Loads a file into the prefix cache. Throws Error when it is damaged or belongs to another model;
// the cache is unchanged then.
void restore_kv_snapshot(api::LLM& llm, const std::filesystem::path& path);

}  // namespace graft::cli
