// Writes a PEFT adapter as a GGUF file in the form of llama.cpp's converter: the tensors of the
// base model with .lora_a and .lora_b, the rows of B in the order of the GGUF tensor.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "graft/formats/adapters/adapter_file.h"
#include "graft/formats/gguf/gguf_writer.h"
#include "graft/formats/tensor_spec.h"
#include "graft/formats/tensor_transform.h"
#include "graft/models/families/family.h"
#include "graft/models/families/tensor_names.h"
#include "graft/models/weights/checkpoint.h"

namespace graft::testing {

// `alpha`: of all pairs, whose rank must be equal. Tensors that are one in GGUF too only.
inline void write_gguf_adapter(const std::filesystem::path& peft,
                               const std::filesystem::path& base,
                               float alpha,
                               const std::filesystem::path& out) {
  const auto file = formats::open_adapter(peft);
  const auto model = models::open_checkpoint(base);
  formats::GgufMetadata metadata;
  metadata.set("general.architecture", std::string(model->config().family->gguf.architecture));
  metadata.set("general.type", std::string("adapter"));
  metadata.set("adapter.type", std::string("lora"));
  metadata.set("adapter.lora.alpha", alpha);
  std::vector<formats::TensorSpec> specs;
  std::vector<std::vector<std::byte>> data;
  for (const formats::LoraPair& pair : file->pairs()) {
    const models::MappedName mapped = models::to_gguf(model->config(), pair.target).front();
    specs.push_back(
        {.name = mapped.name + ".lora_a", .dtype = pair.a->dtype, .shape = pair.a->shape});
    data.emplace_back(pair.a->data.begin(), pair.a->data.end());
    specs.push_back(
        {.name = mapped.name + ".lora_b", .dtype = pair.b->dtype, .shape = pair.b->shape});
    const auto rows = static_cast<std::size_t>(pair.b->shape[0]);
    const std::size_t row_bytes = pair.b->data.size() / rows;
    std::vector<std::byte> ordered;
    for (std::size_t row = 0; row < rows; ++row) {
      const bool is_paired = mapped.transform == formats::TensorTransform::RopePairs;
      const auto from = is_paired ? static_cast<std::size_t>(formats::rope_halves_row(
                                        static_cast<std::int64_t>(row),
                                        static_cast<std::int64_t>(rows) / mapped.num_heads))
                                  : row;
      const auto bytes = pair.b->data.subspan(from * row_bytes, row_bytes);
      ordered.insert(ordered.end(), bytes.begin(), bytes.end());
    }
    data.push_back(std::move(ordered));
  }
  formats::GgufWriter writer(out, metadata, specs);
  for (const std::vector<std::byte>& bytes : data)
    writer.append(bytes);
  writer.finish();
}

}  // namespace graft::testing
