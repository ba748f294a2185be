// LLaVA: a Llama or Mistral text model with a CLIP vision tower (build/build_vision.cpp).
// LLaVA-NeXT adds tiles.

#include "graft/models/families/llama.h"

namespace graft::models {
namespace {

using formats::Fields;

// Without a vision_config transformers takes CLIP-L at 336 pixels; with one, the defaults of absent
// keys are those of CLIP-B.
VisionConfig read_vision(const Fields& top) {
  const bool given = top.has("vision_config");
  const Fields fields = top.object("vision_config");
  VisionConfig vision;
  vision.hidden_size = fields.integer("hidden_size", given ? 768 : 1024, 1);
  vision.intermediate_size = fields.integer("intermediate_size", given ? 3072 : 4096, 1);
  vision.num_hidden_layers = fields.integer("num_hidden_layers", given ? 12 : 24, 1);
  vision.num_attention_heads = fields.integer("num_attention_heads", given ? 12 : 16, 1);
  vision.image_size = fields.integer("image_size", given ? 224 : 336, 1);
  vision.patch_size = fields.integer("patch_size", given ? 32 : 14, 1);
  vision.layer_norm_eps = fields.number("layer_norm_eps", 1e-5);
  vision.hidden_act = fields.text("hidden_act", "quick_gelu");
  if (const std::string type = fields.text("model_type", ""); !type.empty()) {
    if (type != "clip_vision_model") fields.problem("model_type", type, "clip_vision_model");
  }
  vision.feature_layer = top.integer("vision_feature_layer").value_or(-2);
  vision.feature_select = top.text("vision_feature_select_strategy", "default");
  if (vision.feature_select != "default" && vision.feature_select != "full") {
    top.problem("vision_feature_select_strategy", vision.feature_select, "default or full");
  }
  vision.projector_hidden_act = top.text("projector_hidden_act", "gelu");
  vision.projector_bias = top.boolean("multimodal_projector_bias", true);
  vision.processor.shortest_edge = vision.processor.crop_size = vision.image_size;
  const std::int64_t image_token = top.integer("image_token_index", 32000);
  vision.image_token_index = top.integer("image_token_id", image_token);
  return vision;
}

void read_llava_text(const Fields& top, ModelConfig& config) {
  const Fields text = top.object("text_config");
  const std::string type = text.text("model_type", "llama");
  const bool is_mistral = type == "mistral";
  if (!is_mistral && type != "llama") text.problem("model_type", type, "llama or mistral");
  const HfDefaults& defaults = is_mistral ? kMistralDefaults : kLlamaDefaults;
  read_llama_layers(text, defaults, config);
  if (is_mistral) read_mistral_window(text, config);
  read_rope(text, defaults, config);
}

void read_llava(const Fields& top, ModelConfig& config) {
  read_llava_text(top, config);
  config.vision = read_vision(top);
}

// The resolutions of the tiles, [height, width] in the file.
std::vector<vision::Size> read_pinpoints(const Fields& top) {
  std::vector<vision::Size> sizes;
  const Json* list = top.find("image_grid_pinpoints");
  if (list == nullptr || !list->is_array() || list->empty()) {
    top.problem("image_grid_pinpoints", list == nullptr ? "missing" : list->dump(),
                "a list of [height, width]");
    return sizes;
  }
  for (const Json& pair : *list) {
    const bool is_pair = pair.is_array() && pair.size() == 2 && pair[0].is_number_integer() &&
                         pair[1].is_number_integer();
    if (!is_pair) {
      top.problem("image_grid_pinpoints", pair.dump(), "[height, width]");
      return sizes;
    }
    sizes.push_back({.width = pair[1].get<std::int64_t>(), .height = pair[0].get<std::int64_t>()});
  }
  return sizes;
}

void read_llava_next(const Fields& top, ModelConfig& config) {
  read_llava(top, config);
  config.vision->has_tiles = true;
  config.vision->processor.grid_pinpoints = read_pinpoints(top);
  if (config.vision->feature_select != "default") {
    top.problem("vision_feature_select_strategy", config.vision->feature_select,
                "default: tiles have no class token");
  }
}

}  // namespace

extern const Family kLlava = {
    .model_types = {"llava"},
    .hf_class = "LlavaForConditionalGeneration",
    .class_prefix = "Llama",
    // A GGUF file holds the text model alone: it is read back as a Llama.
    .gguf = {.architecture = "llama",
             .matches = [](const formats::GgufFields&) { return false; },
             .written_as = "llama"},
    .read_hf = read_llava,
    .tensors = {rows::kNorms, rows::kPairedQueryKey, rows::kAttention, rows::kMlp},
    .text_prefixes = {NamePrefix{.plain = "", .stored = "language_model."},
                      NamePrefix{.plain = "model.", .stored = "model.language_model."}},
    .build = build_dense,
};

extern const Family kLlavaNext = {
    .model_types = {"llava_next"},
    .hf_class = "LlavaNextForConditionalGeneration",
    .class_prefix = "Llama",
    .gguf = {.architecture = "llama",
             .matches = [](const formats::GgufFields&) { return false; },
             .written_as = "llama"},
    .read_hf = read_llava_next,
    .tensors = {rows::kNorms, rows::kPairedQueryKey, rows::kAttention, rows::kMlp},
    .text_prefixes = {NamePrefix{.plain = "", .stored = "language_model."},
                      NamePrefix{.plain = "model.", .stored = "model.language_model."}},
    .build = build_dense,
};

}  // namespace graft::models
