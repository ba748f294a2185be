// For tests: the configuration of a checkpoint without its weights.

#pragma once

#include <filesystem>

#include "graft/base/text/json.h"
#include "graft/models/config/hf_config.h"

namespace graft::models {

inline ModelConfig read_config_folder(const std::filesystem::path& folder) {
  const Json config = read_json_file(folder / "config.json");
  const auto generation_path = folder / "generation_config.json";
  if (!std::filesystem::exists(generation_path)) return read_hf_config(config, nullptr, "test");
  const Json generation = read_json_file(generation_path);
  return read_hf_config(config, &generation, "test");
}

}  // namespace graft::models
