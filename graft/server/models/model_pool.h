// The models that a server answers for, by name. One is loaded when it is first asked for, and goes
// when nobody has asked for a while or when another needs its memory; never while it answers.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graft/api/llm.h"
#include "graft/server/models/loaded_model.h"
#include "graft/server/models/model_info.h"

namespace graft::server {

// A model that stays as long as somebody holds this.
using Lease = std::shared_ptr<LoadedModel>;

struct NamedPath {
  std::string name;
  std::filesystem::path path;
};

struct PoolConfig {
  std::vector<NamedPath> models = {};  // the first answers requests that name none
  api::LlmConfig llm = {};
  std::string chat_template = {};   // instead of the models' own
  double keep_alive_seconds = 300;  // without requests; negative: for ever
  std::size_t max_loaded = 0;       // models at once; 0: as memory allows
  std::size_t max_loading = 256;    // requests that wait for a model to be loaded
};

class ModelPool {
 public:
  using Post = std::function<void(std::function<void()> task)>;
  using Ready = std::function<void(Lease lease)>;
  using Failed = std::function<void(const std::string& message)>;

  // `post` runs a task on another thread: what waited for a model goes on there.
  ModelPool(PoolConfig config, Post post);
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;
  // Waits for the model that is being loaded. Answers that still run end with an abort.
  ~ModelPool();

  // The name under which it is served: whatever the case, with or without ":latest", "" for the
  // first. Throws ApiError 404.
  std::string resolve(const std::string& name) const;

  // Gives the model to `ready`: now, when it is loaded, and later on another thread otherwise.
  // Throws ApiError 404 and, when too many wait, 429.
  void acquire(const std::string& name,
               Ready ready,
               Failed failed,
               std::optional<double> keep_alive_seconds = {});
  // Lets it go as soon as it is idle.
  void unload(const std::string& name);

  std::vector<std::string> names() const;
  ModelInfo info(const std::string& name) const;  // throws Error when its files cannot be read

  struct Loaded {
    Lease lease;
    double expires_in_seconds = -1;  // negative: never
  };
  std::vector<Loaded> loaded() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace graft::server
