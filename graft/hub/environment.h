// Endpoints, tokens and folders of the model hubs, from the environment variables that the hubs'
// own programs read.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace graft::hub {

struct Environment {
  bool is_offline = false;  // HF_HUB_OFFLINE: no request leaves the machine, to any hub
  std::string hf_endpoint = "https://huggingface.co";  // HF_ENDPOINT: a mirror
  std::string hf_token = {};                           // HF_TOKEN, else the file that login writes
  std::filesystem::path hf_cache = {};                 // HF_HUB_CACHE, else $HF_HOME/hub
  std::string modelscope_endpoint = "https://www.modelscope.cn";  // MODELSCOPE_DOMAIN
  std::string modelscope_token = {};                              // MODELSCOPE_API_TOKEN
  std::string ollama_registry = "https://registry.ollama.ai";     // GRAFT_OLLAMA_REGISTRY
  // Where Ollama names are stored, in Ollama's layout: $OLLAMA_MODELS, else in graft's folder.
  std::filesystem::path ollama_store = {};
  // Where models of Ollama are found besides: graft's folder, ~/.ollama, and those of its service.
  std::vector<std::filesystem::path> other_ollama_stores = {};
  // Where files of other sources are stored: $XDG_DATA_HOME/graft/models.
  std::filesystem::path models = {};
  // Where created models are stored: $XDG_DATA_HOME/graft/created.
  std::filesystem::path created = {};
  std::filesystem::path home = {};   // $HOME; empty: unknown
  std::filesystem::path cache = {};  // $XDG_CACHE_HOME, else ~/.cache
};

// The folders of Ollama's models, `ollama_store` first, each once.
std::vector<std::filesystem::path> ollama_stores(const Environment& env);

// Throws Error for an endpoint that is not an http or https URL.
Environment read_environment();

// $VARIABLE, else $HOME/FALLBACK; empty without $HOME.
std::filesystem::path base_folder(const char* variable, const char* fallback);

}  // namespace graft::hub
