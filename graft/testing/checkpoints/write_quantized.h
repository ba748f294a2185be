// For tests: a Hugging Face folder with the configuration of a golden checkpoint, other tensors and
// a "quantization_config".

#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/formats/safetensors/safetensors_writer.h"
#include "graft/formats/tensor_spec.h"
#include "graft/testing/integers.h"

namespace graft::formats::test {

// The tensors have whole names. `quantization`: JSON; empty: none.
inline void write_quantized(const std::filesystem::path& golden,
                            const std::filesystem::path& folder,
                            const std::vector<PackedTensor>& tensors,
                            const std::string& quantization) {
  std::filesystem::create_directories(folder);
  Json config = read_json_file(golden / "config.json");
  if (!quantization.empty()) config["quantization_config"] = parse_json(quantization, "test");
  std::ofstream(folder / "config.json") << config.dump();
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const PackedTensor& tensor : tensors)
    specs.push_back({.name = tensor.suffix, .dtype = tensor.dtype, .shape = tensor.shape});
  SafetensorsWriter writer(folder / "model.safetensors", {{"format", "pt"}}, specs);
  for (const PackedTensor& tensor : tensors)
    writer.append(tensor.bytes);
  writer.finish();
}

}  // namespace graft::formats::test
