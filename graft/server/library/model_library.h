// The models that a server gets and loses while it runs: pulled from a hub, created from others,
// copied, deleted. All are files of graft's folders, so that a restart finds them.

#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "graft/base/text/json.h"
#include "graft/formats/created_model.h"
#include "graft/hub/environment.h"
#include "graft/hub/model_ref.h"
#include "graft/server/library/pulls.h"
#include "graft/server/models/model_pool.h"

namespace graft::server {

// What a new model changes; unset fields are those of the model it is made of.
struct CreateRequest {
  std::string model = {};
  std::string from = {};
  std::optional<std::string> system = {};
  std::optional<std::string> chat_template = {};
  std::optional<OrderedJson> messages = {};
  OrderedJson parameters = OrderedJson::object();
  std::optional<std::string> license = {};
};

class ModelLibrary {
 public:
  // `models` must outlive the library.
  ModelLibrary(const hub::Environment& env, ModelPool& models);

  Pulls& pulls() { return pulls_; }
  // Serves a model that was pulled.
  void add_pulled(const hub::ModelRef& ref, const std::filesystem::path& path);

  // All throw Error or ApiError.
  void create(const CreateRequest& request);
  void copy(const std::string& source, const std::string& destination);
  // Removes the files of a created or downloaded model.
  void remove(const std::string& name);

 private:
  formats::CreatedModel base_of(const std::string& name) const;
  void write(const formats::CreatedModel& model);

  const hub::Environment env_;
  ModelPool& models_;
  std::mutex mutex_;  // one change at a time
  Pulls pulls_;
};

// A model as a client names it for a pull: as `graft pull` takes it; without a hub and an
// organization, one of Ollama's registry. Throws Error.
hub::ModelRef parse_pull_name(const std::string& name);

}  // namespace graft::server
