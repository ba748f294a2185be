#include "graft/models/config/mmproj_config.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "graft/base/error.h"
#include "graft/formats/gguf/gguf_fields.h"

namespace graft::models {
namespace {

using formats::GgufMetadata;
using formats::TensorInfo;

class MmprojReader {
 public:
  MmprojReader(const GgufMetadata& metadata, std::span<const TensorInfo> tensors)
      : metadata_(metadata), tensors_(tensors) {}

  VisionConfig read() const {
    const std::string projector =
        metadata_.string("clip.projector_type")
            .value_or(metadata_.string("clip.vision.projector_type").value_or("mlp"));
    if (projector != "mlp")
      fail("the projector is ", projector, ", only mlp (LLaVA 1.5 and 1.6) is supported");
    VisionConfig vision;
    vision.hidden_size = required("clip.vision.embedding_length");
    vision.intermediate_size = required("clip.vision.feed_forward_length");
    vision.num_attention_heads = required("clip.vision.attention.head_count");
    vision.image_size = required("clip.vision.image_size");
    vision.patch_size = required("clip.vision.patch_size");
    vision.layer_norm_eps = formats::decimal_of_f32(
        metadata_.number("clip.vision.attention.layer_norm_epsilon").value_or(1e-5));
    vision.hidden_act = metadata_.boolean("clip.use_gelu").value_or(false) ? "gelu" : "quick_gelu";
    read_layers(vision);
    vision.projector_bias = find("mm.0.bias") != nullptr;
    vision.has_tiles = find("model.image_newline") != nullptr;
    read_processor(vision);
    return vision;
  }

  const TensorInfo* find(std::string_view name) const {
    const auto found = std::ranges::find(tensors_, name, &TensorInfo::name);
    return found == tensors_.end() ? nullptr : &*found;
  }

 private:
  std::int64_t required(const std::string& key) const {
    const auto value = metadata_.integer(key);
    if (!value) fail("metadata key \"", key, "\" is missing");
    return *value;
  }

  // LLaVA's converter leaves out the last layer and the norm after it, which are not used.
  void read_layers(VisionConfig& vision) const {
    vision.num_hidden_layers = required("clip.vision.block_count");
    if (const formats::GgufArray* array = metadata_.array("clip.vision.feature_layer")) {
      const auto layers = array->integers();
      if (!layers || layers->size() != 1)
        fail("metadata key \"clip.vision.feature_layer\": expected one layer");
      vision.feature_layer = layers->front();
      return;
    }
    const bool is_complete = find("v.post_ln.weight") != nullptr;
    vision.feature_layer = is_complete ? -2 : -1;
  }

  void read_processor(VisionConfig& vision) const {
    vision::ProcessorConfig& processor = vision.processor;
    processor.shortest_edge = processor.crop_size = vision.image_size;
    read_factors("clip.vision.image_mean", processor.mean);
    read_factors("clip.vision.image_std", processor.std);
    for (const double factor : processor.std) {
      if (!(factor > 0)) fail("metadata key \"clip.vision.image_std\" has ", factor);
    }
    if (!vision.has_tiles) return;
    // Width and height of each, one after the other.
    const formats::GgufArray* array = metadata_.array("clip.vision.image_grid_pinpoints");
    const auto numbers = array == nullptr ? std::nullopt : array->integers();
    if (!numbers || numbers->empty() || numbers->size() % 2 != 0)
      fail("metadata key \"clip.vision.image_grid_pinpoints\" is missing or has an odd length");
    for (std::size_t i = 0; i < numbers->size(); i += 2)
      processor.grid_pinpoints.push_back({.width = (*numbers)[i], .height = (*numbers)[i + 1]});
  }

  void read_factors(const std::string& key, std::array<double, 3>& out) const {
    const formats::GgufArray* array = metadata_.array(key);
    if (array == nullptr) return;
    const auto numbers = array->numbers();
    if (!numbers || numbers->size() != out.size())
      fail("metadata key \"", key, "\": expected three numbers");
    std::ranges::transform(*numbers, out.begin(), formats::decimal_of_f32);
  }

  const GgufMetadata& metadata_;
  std::span<const TensorInfo> tensors_;
};

}  // namespace

void read_mmproj_config(const GgufMetadata& metadata,
                        std::span<const TensorInfo> tensors,
                        const std::string& where,
                        ModelConfig& config) {
  try {
    const MmprojReader reader(metadata, tensors);
    config.vision = reader.read();
    const TensorInfo* projector = reader.find("mm.2.weight");
    if (projector == nullptr || projector->shape.empty()) fail("tensor mm.2.weight is missing");
    if (projector->shape[0] != config.hidden_size) {
      fail("its projector gives ", projector->shape[0], " values, the model's hidden size is ",
           config.hidden_size, ": it belongs to another model");
    }
  } catch (const Error& error) {
    fail(where, ": ", error.what());
  }
  validate(config, where);
}

}  // namespace graft::models
