// Finds, looks up and downloads the models of all sources.

#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graft/hub/download.h"
#include "graft/hub/environment.h"
#include "graft/hub/model_ref.h"
#include "graft/hub/ollama_store.h"
#include "graft/hub/remote_files.h"

namespace graft::hub {

// A model on a hub, before its files are downloaded.
struct RemoteModel {
  ModelRef ref = {};
  std::string commit = {};  // Hugging Face
  ChosenFiles chosen = {};
  std::vector<DownloadJob> jobs = {};  // one per chosen file
  OllamaManifest manifest = {};        // Ollama
  std::filesystem::path path = {};     // what to open once everything is downloaded
};

// The model as it was downloaded, without network; nullopt: it was not, or not completely.
std::optional<std::filesystem::path> find_pulled(const ModelRef& ref, const Environment& env);

// Asks the hub for the files and their hashes. Throws Error.
RemoteModel look_up(const ModelRef& ref, const Environment& env, const HttpConfig& http);

struct FetchOptions {
  DownloadOptions download = {};
  // Before each file; `index` of RemoteModel::jobs.
  std::function<void(std::size_t index)> on_file = {};
  // Once all files are complete, before the model is made visible.
  std::function<void()> on_finish = {};
};

// Downloads what is missing, after a check of the free space for all of it. Throws Error;
// Cancelled.
std::filesystem::path fetch(const RemoteModel& model,
                            const Environment& env,
                            const FetchOptions& options);

}  // namespace graft::hub
