// The models of a server, by name. A model is loaded on its first request and unloaded after
// keep_alive_seconds without requests or when another model needs the memory of the host or of a
// GPU, the least recently used first; never while leased. When all max_loaded models are in use, a
// model that has waited for switch_seconds gets its turn: new requests for the longest loaded model
// wait until the other one has been loaded. A model that has failed (LLM::failure()) is loaded
// again for the next request. With max_loaded, the KV caches share the free memory: each takes the
// share of one of the models that may still be loaded. Models can be added and removed at any time.

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

// A reference to a loaded model; the model is not unloaded while a lease on it exists.
struct Lease : std::shared_ptr<LoadedModel> {
  using std::shared_ptr<LoadedModel>::shared_ptr;

  // "MODEL" or "MODEL:ADAPTER", for answers.
  std::string name() const;

  std::string adapter = {};  // of the request; empty: none
};

struct NamedPath {
  std::string name;
  std::filesystem::path path;
};

// For logs and metrics.
struct PoolEvent {
  enum class Kind : std::uint8_t { Loading, Loaded, LoadFailed, Unloaded };

  Kind kind = Kind::Loading;
  std::string model = {};
  // LoadFailed: the message. Unloaded: "idle", "requested", "evicted" for another model, "failed".
  std::string reason = {};
  bool is_out_of_memory = false;  // LoadFailed
  double seconds = 0;             // Loaded, LoadFailed: since Loading
  LoadedModel* loaded = nullptr;  // Loaded, Unloaded
};

struct PoolConfig {
  std::vector<NamedPath> models = {};  // the first serves requests without a model name
  api::LlmConfig llm = {};             // its adapters are those of the first model
  std::string chat_template = {};      // overrides the models' own templates; empty: none
  double keep_alive_seconds = 300;     // idle time before unloading; negative: never
  std::size_t max_loaded = 0;          // max models in memory; 0: as memory allows
  std::size_t max_loading = 256;       // max requests waiting for a model to load
  double switch_seconds = 10;          // wait of a model before one in use is drained for it
  // Loads a model; throws Error, OutOfMemory when unloading others can help. Empty: LoadedModel.
  std::function<std::shared_ptr<LoadedModel>(const ModelInfo& info, const api::LlmConfig& llm)>
      load = {};
  // Called on the loader thread.
  std::function<void(const PoolEvent& event)> on_event = {};
  // LlmConfig::on_step of each model.
  std::function<void(const std::string& model, const api::StepInfo& step)> on_step = {};
};

class ModelPool {
 public:
  using Post = std::function<void(std::function<void()> task)>;
  using Ready = std::function<void(Lease lease)>;
  using Failed = std::function<void(const std::string& message)>;

  // `post` runs a task on another thread; callbacks of delayed acquire() calls run there.
  ModelPool(PoolConfig config, Post post);
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;
  // Waits for a model that is loading. Running sequences are aborted.
  ~ModelPool();

  // The canonical name of a model: ignores case, a ":latest" suffix and the name of one of its
  // adapters; "" is the first model.
  // Throws ApiError 404.
  std::string resolve(const std::string& name) const;
  // Likewise, with its path.
  NamedPath find(const std::string& name) const;
  // The model and, for "MODEL:ADAPTER", one of its adapters. Throws ApiError 404.
  struct Found {
    NamedPath model;
    std::optional<api::AdapterSource> adapter;
  };
  Found look_up(const std::string& name) const;

  // The adapters that requests may name, loaded with the model: `name` is canonical.
  std::vector<api::AdapterSource> adapters(const std::string& name) const;
  // What was loaded into or unloaded from a loaded model, for when it is loaded again.
  void add_adapter(const std::string& name, const api::AdapterSource& source);
  void remove_adapter(const std::string& name, const std::string& adapter);

  // Adds a model, or replaces the one of this name, in its place of the list. Requests that use the
  // replaced one end with it.
  void put(const NamedPath& named);
  // New requests do not find the model; it is unloaded when those that use it have ended. Throws
  // ApiError 404.
  void remove(const std::string& name);

  // `name` may be that of an adapter. Calls `ready` with a lease: immediately when the model is
  // loaded, otherwise later on another thread; calls `failed` when loading fails. Throws ApiError
  // 404, or 429 when max_loading requests wait.
  void acquire(const std::string& name,
               Ready ready,
               Failed failed,
               std::optional<double> keep_alive_seconds = {});
  // Unloads the model as soon as it is idle.
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
