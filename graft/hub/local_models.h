// Models that are already on this machine, downloaded by graft or by other programs.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "graft/hub/environment.h"

namespace graft::hub {

struct LocalModel {
  std::string name = {};            // what -m accepts: "org/repo:Q4_K_M", "llama3.2:1b"
  std::filesystem::path path = {};  // a GGUF file (the first part) or a Hugging Face folder
  std::uint64_t bytes = 0;
  std::string origin = {};  // "Hugging Face cache", "Ollama", "LM Studio", "llama.cpp", …
};

// Complete models only, sorted by origin and name. Files are not opened; unreadable folders are
// skipped.
std::vector<LocalModel> find_local_models(const Environment& env);

// Removes a model that graft may remove: in the Hugging Face cache, in graft's own folders, and in
// the Ollama store that graft writes. `name`: a reference or a name of find_local_models(). Returns
// the bytes removed. Throws Error for a model of another program and for an unknown one.
std::uint64_t remove_model(const std::string& name, const Environment& env);

}  // namespace graft::hub
