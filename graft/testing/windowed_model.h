// For tests: a model whose layers all have a sliding window, as Mistral's: the weights of the
// golden checkpoint of Llama with another configuration.

#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"
#include "graft/testing/golden.h"

namespace graft {

class WindowedModel {
 public:
  explicit WindowedModel(std::int64_t window, std::int64_t max_context = 512) {
    for (const auto& file : std::filesystem::directory_iterator(golden_checkpoint("llama")))
      std::filesystem::copy(file.path(), folder_ / file.path().filename().string());
    Json config = read_json_file(folder_ / "config.json");
    config["architectures"] = {"MistralForCausalLM"};
    config["model_type"] = "mistral";
    config["sliding_window"] = window;
    config["max_position_embeddings"] = max_context;
    std::ofstream(folder_ / "config.json") << config.dump();
  }

  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TempDir folder_;
};

}  // namespace graft
