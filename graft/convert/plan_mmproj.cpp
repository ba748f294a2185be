#include "graft/convert/plan_mmproj.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/formats/gguf/metadata.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/families/vision_names.h"
#include "graft/models/weights/tensor_index.h"
#include "graft/ops/role.h"
#include "graft/plan/blueprint.h"

namespace graft::convert {
namespace {

using formats::GgufArray;
using formats::GgufMetadata;
using models::VisionConfig;

// llama.cpp's numbers of general.file_type.
constexpr std::uint32_t kFileTypeF32 = 0;
constexpr std::uint32_t kFileTypeF16 = 1;

GgufArray floats(const std::array<double, 3>& values) {
  return GgufArray::of(std::vector<float>(values.begin(), values.end()));
}

void write_tiles(const VisionConfig& vision, GgufMetadata& metadata) {
  std::vector<std::int32_t> pinpoints;
  for (const vision::Size& size : vision.processor.grid_pinpoints) {
    pinpoints.push_back(static_cast<std::int32_t>(size.width));
    pinpoints.push_back(static_cast<std::int32_t>(size.height));
  }
  metadata.set("clip.vision.image_grid_pinpoints", GgufArray::of(pinpoints));
  metadata.set("clip.vision.image_crop_resolution", static_cast<std::uint32_t>(vision.image_size));
  metadata.set("clip.vision.image_aspect_ratio", std::string("anyres"));
  metadata.set("clip.vision.mm_patch_merge_type", std::string("spatial_unpad"));
}

void write_metadata(const models::ModelConfig& config, bool is_f32, GgufMetadata& metadata) {
  const VisionConfig& vision = *config.vision;
  const auto set = [&](const char* key, std::int64_t value) {
    metadata.set(key, static_cast<std::uint32_t>(value));
  };
  metadata.set("general.architecture", std::string("clip"));
  metadata.set("general.name", config.name);
  metadata.set("general.file_type", is_f32 ? kFileTypeF32 : kFileTypeF16);
  metadata.set("clip.has_text_encoder", false);
  metadata.set("clip.has_vision_encoder", true);
  metadata.set("clip.has_llava_projector", true);
  metadata.set("clip.projector_type", std::string("mlp"));
  metadata.set("clip.use_gelu", vision.hidden_act != "quick_gelu");
  set("clip.vision.image_size", vision.image_size);
  set("clip.vision.patch_size", vision.patch_size);
  set("clip.vision.embedding_length", vision.hidden_size);
  set("clip.vision.feed_forward_length", vision.intermediate_size);
  set("clip.vision.projection_dim", config.hidden_size);
  set("clip.vision.attention.head_count", vision.num_attention_heads);
  metadata.set("clip.vision.attention.layer_norm_epsilon",
               static_cast<float>(vision.layer_norm_eps));
  // The layers after that of the features are left out.
  set("clip.vision.block_count", vision.num_computed_layers());
  metadata.set("clip.vision.feature_layer",
               GgufArray::of(std::vector<std::int32_t>{
                   static_cast<std::int32_t>(vision.num_computed_layers())}));
  metadata.set("clip.vision.image_mean", floats(vision.processor.mean));
  metadata.set("clip.vision.image_std", floats(vision.processor.std));
  if (vision.has_tiles) write_tiles(vision, metadata);
}

void check_config(const VisionConfig& vision) {
  if (vision.feature_select != "default")
    fail("vision_feature_select_strategy is ", vision.feature_select, ": GGUF has only default");
  if (vision.projector_hidden_act != "gelu")
    fail("projector_hidden_act is ", vision.projector_hidden_act, ": GGUF has only gelu");
}

}  // namespace

std::optional<Job> plan_mmproj(const models::Checkpoint& source, std::string_view type) {
  const models::ModelConfig& config = source.config();
  if (!config.vision || source.hf_config() == nullptr) return std::nullopt;
  check_config(*config.vision);
  Job job;
  job.source = &source;
  const bool is_f32 = type == "F32";
  write_metadata(config, is_f32, job.metadata);
  const models::TensorIndex index(source);
  models::make_blueprint(source).visit([&](const plan::ModuleSpec& module) {
    if (!ops::is_vision(module.role)) return;
    for (const plan::WeightSpec& weight : module.weights) {
      const auto found = index.find(weight.name);
      const std::vector<std::string> names = models::gguf_names_of_vision(weight.name);
      if (!found || names.empty())
        fail(source.files()[0].string(), ": weight ", weight.name, " is missing");
      const bool is_matrix = weight.shape.size() > 1;
      job.recipes.push_back(
          {.name = names.front(),
           .shape = weight.shape,
           .dtype = is_matrix && !is_f32 ? DType::F16 : DType::F32,
           .sources = {{.weight = found->stored.front().tensor, .scale = nullptr}},
           .values = {}});
    }
  });
  return job;
}

std::filesystem::path mmproj_path(const std::filesystem::path& out) {
  return out.parent_path() / ("mmproj-" + out.stem().string() + ".gguf");
}

}  // namespace graft::convert
