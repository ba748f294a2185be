// preprocessor_config.json of CLIPImageProcessor and LlavaNextImageProcessor.

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "graft/base/error.h"
#include "graft/formats/huggingface/fields.h"
#include "graft/models/config/hf_config.h"

namespace graft::models {
namespace {

using formats::Fields;
using vision::ProcessorConfig;

// Pillow's number of the bicubic filter.
constexpr std::int64_t kBicubic = 3;

void read_factors(const Fields& fields,
                  std::string_view key,
                  bool is_divisor,
                  std::array<double, 3>& out) {
  const Json* list = fields.find(key);
  if (list == nullptr) return;
  bool is_valid = list->is_array() && list->size() == out.size();
  for (std::size_t i = 0; is_valid && i < out.size(); ++i) {
    is_valid = (*list)[i].is_number();
    if (!is_valid) break;
    out[i] = (*list)[i].get<double>();
    is_valid = std::isfinite(out[i]) && (!is_divisor || out[i] > 0);
  }
  if (!is_valid)
    fields.problem(key, *list, is_divisor ? "three positive numbers" : "three numbers");
}

// {"shortest_edge": N}, {"height": N, "width": N}, or N.
void read_size(const Fields& fields, ProcessorConfig& out) {
  const Json* size = fields.find("size");
  if (size == nullptr) return;
  if (!size->is_object()) {
    out.shortest_edge = fields.integer("size", out.shortest_edge, 1);
    return;
  }
  const Fields object = fields.object("size");
  if (object.has("shortest_edge")) {
    out.shortest_edge = object.integer("shortest_edge", 0, 1);
    return;
  }
  out.shortest_edge = 0;
  out.size = {.width = object.integer("width", 0, 1), .height = object.integer("height", 0, 1)};
  if (out.size.width < 1 || out.size.height < 1)
    fields.problem("size", *size, "a shortest_edge, or a height and a width");
}

void read_crop_size(const Fields& fields, std::int64_t image_size, ProcessorConfig& out) {
  const Json* size = fields.find("crop_size");
  std::int64_t width = image_size;
  std::int64_t height = image_size;
  if (size != nullptr && size->is_object()) {
    const Fields object = fields.object("crop_size");
    width = object.integer("width", 0, 1);
    height = object.integer("height", 0, 1);
  } else if (size != nullptr) {
    width = height = fields.integer("crop_size", 0, 1);
  }
  if (width != image_size || height != image_size)
    fields.problem("crop_size", *size, str(image_size, ", the image_size of the vision tower"));
  out.crop_size = image_size;
}

void check_edges(const ProcessorConfig& processor, const Fields& fields) {
  constexpr std::int64_t kMaxEdge = 16384;
  for (const std::int64_t edge :
       {processor.shortest_edge, processor.size.width, processor.size.height}) {
    if (edge > kMaxEdge) fields.problem("size", edge, str("at most ", kMaxEdge));
  }
}

}  // namespace

void read_preprocessor(const Json& preprocessor, const std::string& where, ModelConfig& config) {
  std::vector<std::string> problems;
  const Fields fields(preprocessor, "", problems);
  formats::fail_if_any(problems, where);
  VisionConfig& vision = *config.vision;
  ProcessorConfig& out = vision.processor;
  read_size(fields, out);
  check_edges(out, fields);
  read_crop_size(fields, vision.image_size, out);
  out.resizes = fields.boolean("do_resize", true);
  out.crops = fields.boolean("do_center_crop", true);
  if (!fields.boolean("do_rescale", true)) {
    out.rescale_factor = 1.0;
  } else {
    out.rescale_factor = fields.number("rescale_factor", out.rescale_factor);
  }
  if (fields.boolean("do_normalize", true)) {
    read_factors(fields, "image_mean", false, out.mean);
    read_factors(fields, "image_std", true, out.std);
  } else {
    out.mean = {0, 0, 0};
    out.std = {1, 1, 1};
  }
  const std::int64_t filter = fields.integer("resample", kBicubic);
  if (filter != kBicubic) fields.problem("resample", filter, "3: bicubic");
  if (vision.has_tiles && !fields.boolean("do_pad", true))
    fields.problem("do_pad", false, "true: the tiles are padded");
  formats::fail_if_any(problems, where);
}

}  // namespace graft::models
