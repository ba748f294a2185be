// Whether the first word of `graft run` is the name of a model, as in `run llama3.2 "Why?"`.

#pragma once

#include <string>
#include <string_view>

#include "graft/api/catalog.h"

namespace graft::cli {

// A name of the catalog, a GGUF file or a Hugging Face folder.
bool names_local_model(const std::string& word, const api::Catalog& catalog);

// A name that can be nothing else: "ollama:llama3.2", "hf:org/repo", "ms:org/repo", the URL of a
// GGUF file.
bool names_remote_model(std::string_view word);

// Whether it has the form of a model's name: "llama3.2", "qwen2.5:7b", "org/repo", or is a well
// known one: "mistral".
bool looks_like_model(std::string_view word);

// The name under which -m and `graft pull` download such a model: "org/repo", "ollama:llama3.2".
std::string download_name(const std::string& word);

}  // namespace graft::cli
