// Created models (graft/formats/created_model.h) in a folder: NAMESPACE/MODEL/TAG.graft. Their
// weights belong to other models.

#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/formats/created_model.h"

namespace graft::hub {

class CreatedStore {
 public:
  explicit CreatedStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  struct Entry {
    formats::CreatedModel model;
    std::filesystem::path path;
  };
  // Sorted by name. Unreadable files are left out.
  std::vector<Entry> list() const;
  // nullopt: no such model. Throws Error for a malformed file.
  std::optional<Entry> find(std::string_view name) const;
  // Names of the models with these weights.
  std::vector<std::string> users_of(const std::filesystem::path& weights) const;

  // Replaces a model of the same name. Returns the path of the file. Throws Error, also for more
  // than kMaxModels.
  std::filesystem::path write(const formats::CreatedModel& model) const;
  // False: no such model.
  bool remove(std::string_view name) const;

  static constexpr std::size_t kMaxModels = 1000;

 private:
  std::filesystem::path path_of(std::string_view name) const;

  std::filesystem::path folder_;
};

// "mario:latest" of "Mario" or "library/mario:latest", "user/mario:v2". Throws Error for another
// form.
std::string created_name(std::string_view name);

}  // namespace graft::hub
