#include "graft/server/library/model_library.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/hub/created/created_store.h"
#include "graft/hub/local_models.h"
#include "graft/server/api_error.h"

namespace graft::server {

hub::ModelRef parse_pull_name(const std::string& name) {
  constexpr std::array<std::string_view, 6> kPrefixes = {
      "hf:", "ms:", "ollama:", "hf.co/", "http://", "https://"};
  const bool has_hub = std::ranges::any_of(
      kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
  // A name never means a path of the server.
  const bool is_repo = !has_hub && name.find('/') != std::string::npos;
  const auto ref = has_hub   ? hub::parse_model_ref(name)
                   : is_repo ? hub::parse_model_ref("hf:" + name)
                             : hub::parse_ollama_name(name);
  if (!ref) fail(name, ": not the name of a model on a hub");
  return *ref;
}

ModelLibrary::ModelLibrary(const hub::Environment& env, ModelPool& models)
    : env_(env), models_(models), pulls_(env) {}

void ModelLibrary::add_pulled(const hub::ModelRef& ref, const std::filesystem::path& path) {
  std::string name = hub::to_string(ref);
  for (const hub::LocalModel& model : hub::find_local_models(env_)) {
    if (model.path == path) name = model.name;
  }
  const std::lock_guard lock(mutex_);
  models_.put({.name = name, .path = path});
}

formats::CreatedModel ModelLibrary::base_of(const std::string& name) const {
  const NamedPath base = models_.find(name);
  if (formats::is_created_model(base.path)) return formats::read_created_model(base.path);
  return {.weights = std::filesystem::absolute(base.path), .from = base.name};
}

void ModelLibrary::write(const formats::CreatedModel& model) {
  const std::vector<std::string> names = models_.names();
  const auto same = std::ranges::find_if(names, [&](const std::string& name) {
    return equal_ignoring_case(name, model.name) ||
           equal_ignoring_case(name + ":latest", model.name);
  });
  if (same != names.end() && !formats::is_created_model(models_.find(*same).path)) {
    throw ApiError(400, str(*same, ": the name of a model that was not created; choose another"),
                   "model");
  }
  models_.put({.name = model.name, .path = hub::CreatedStore(env_.created).write(model)});
}

void ModelLibrary::create(const CreateRequest& request) {
  const std::lock_guard lock(mutex_);
  formats::CreatedModel model = base_of(request.from);
  model.name = hub::created_name(request.model);
  model.from = models_.resolve(request.from);
  if (request.system) model.system = *request.system;
  if (request.chat_template) model.chat_template = *request.chat_template;
  if (request.messages) model.messages = *request.messages;
  if (request.license) model.license = *request.license;
  for (const auto& [name, value] : request.parameters.items())
    model.parameters[name] = value;
  write(model);
}

void ModelLibrary::copy(const std::string& source, const std::string& destination) {
  const std::lock_guard lock(mutex_);
  formats::CreatedModel model = base_of(source);
  model.name = hub::created_name(destination);
  write(model);
}

void ModelLibrary::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const NamedPath named = models_.find(name);
  const std::vector<hub::LocalModel> local = hub::find_local_models(env_);
  const auto found = std::ranges::find_if(local, [&](const hub::LocalModel& model) {
    return model.path == named.path && equal_ignoring_case(model.name, named.name);
  });
  if (found == local.end()) {
    throw ApiError(400,
                   str(named.name,
                       ": was neither created nor downloaded; it is a file of the "
                       "server, remove it there"),
                   "model");
  }
  hub::remove_model(found->name, env_);
  models_.remove(named.name);
}

}  // namespace graft::server
