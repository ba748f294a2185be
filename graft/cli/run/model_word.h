// Whether the first word of `graft run` is the name of a model, as in `run llama3.2 "Why?"`.

#pragma once

#include <string>
#include <string_view>

#include "graft/api/catalog.h"

namespace graft::cli {

// A name of the catalog, a GGUF file or a Hugging Face folder.
bool names_local_model(const std::string& word, const api::Catalog& catalog);

// Whether it has the form of a model's name: "llama3.2", "qwen2.5:7b", "org/repo".
bool looks_like_model(std::string_view word);

}  // namespace graft::cli
