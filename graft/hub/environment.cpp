#include "graft/hub/environment.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"

namespace graft::hub {
namespace {

namespace fs = std::filesystem;

// Where Ollama's service keeps models: its installer and Debian-like packages, Arch.
constexpr std::array<const char*, 2> kOllamaServices = {"/usr/share/ollama/.ollama/models",
                                                        "/var/lib/ollama"};

// Empty when unset.
std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The spellings that huggingface_hub accepts.
bool is_true(const std::string& text) {
  const std::string word = lower_case(text);
  return word == "1" || word == "on" || word == "yes" || word == "true";
}

std::string endpoint(const char* name, const std::string& otherwise) {
  std::string url = value_of(name);
  if (url.empty()) return otherwise;
  // MODELSCOPE_DOMAIN has no scheme.
  if (url.find("://") == std::string::npos) url.insert(0, "https://");
  if (!url.starts_with("https://") && !url.starts_with("http://"))
    fail(name, ": expected an http or https URL, got ", url);
  while (url.ends_with('/'))
    url.pop_back();
  return url;
}

std::string token_in(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return std::string(trimmed(line, " \t\r"));
}

}  // namespace

fs::path base_folder(const char* variable, const char* fallback) {
  const std::string chosen = value_of(variable);
  if (!chosen.empty()) return chosen;
  const std::string home = value_of("HOME");
  return home.empty() ? fs::path() : fs::path(home) / fallback;
}

Environment read_environment() {
  Environment out;
  out.home = value_of("HOME");
  out.cache = base_folder("XDG_CACHE_HOME", ".cache");
  const fs::path data = base_folder("XDG_DATA_HOME", ".local/share");
  if (!data.empty()) out.models = data / "graft/models";
  if (!data.empty()) out.created = data / "graft/created";
  out.is_offline = is_true(value_of("HF_HUB_OFFLINE"));

  fs::path hf_home = value_of("HF_HOME");
  if (hf_home.empty() && !out.cache.empty()) hf_home = out.cache / "huggingface";
  out.hf_cache = value_of("HF_HUB_CACHE");
  if (out.hf_cache.empty() && !hf_home.empty()) out.hf_cache = hf_home / "hub";
  out.hf_endpoint = endpoint("HF_ENDPOINT", out.hf_endpoint);
  out.hf_token = value_of("HF_TOKEN");
  if (out.hf_token.empty() && !hf_home.empty()) out.hf_token = token_in(hf_home / "token");

  out.modelscope_endpoint = endpoint("MODELSCOPE_DOMAIN", out.modelscope_endpoint);
  out.modelscope_token = value_of("MODELSCOPE_API_TOKEN");
  out.ollama_registry = endpoint("GRAFT_OLLAMA_REGISTRY", out.ollama_registry);
  out.ollama_store = value_of("OLLAMA_MODELS");
  const fs::path own_store = data.empty() ? fs::path() : data / "graft/ollama";
  if (out.ollama_store.empty()) out.ollama_store = own_store;
  out.other_ollama_stores = {own_store};
  if (!out.home.empty()) out.other_ollama_stores.push_back(out.home / ".ollama/models");
  for (const char* folder : kOllamaServices)
    out.other_ollama_stores.emplace_back(folder);
  return out;
}

std::vector<fs::path> ollama_stores(const Environment& env) {
  std::vector<fs::path> stores;
  const auto add = [&](const fs::path& folder) {
    const bool is_new = std::ranges::find(stores, folder) == stores.end();
    if (!folder.empty() && is_new) stores.push_back(folder);
  };
  add(env.ollama_store);
  for (const fs::path& folder : env.other_ollama_stores)
    add(folder);
  return stores;
}

}  // namespace graft::hub
