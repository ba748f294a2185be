// For tests: LLaVA and LLaVA-NeXT against the outputs of Transformers in their golden checkpoints,
// on any devices.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/formats/safetensors/safetensors_file.h"
#include "graft/models/open_model.h"
#include "graft/testing/golden.h"
#include "graft/testing/shared_data.h"
#include "graft/vision/decode.h"
#include "graft/vision/processor.h"

namespace graft::models::testing {

inline constexpr std::int32_t kImageToken = 319;

template <class T>
std::vector<T> read_tensor(const std::filesystem::path& path, const std::string& name) {
  const formats::SafetensorsFile file(path);
  const auto found = std::ranges::find(file.tensors(), name, &formats::TensorInfo::name);
  EXPECT_NE(found, file.tensors().end()) << name;
  std::vector<T> values(found->data.size() / sizeof(T));
  std::memcpy(values.data(), found->data.data(), found->data.size());
  return values;
}

// The largest difference, relative to the largest value; infinite when sizes differ.
inline double vision_error(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return HUGE_VAL;
  float largest = 0;
  float error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) return HUGE_VAL;
    largest = std::max(largest, std::abs(want[i]));
    error = std::max(error, std::abs(got[i] - want[i]));
  }
  return error / largest;
}

// All logits of a prompt whose image tokens have the given features, in passes of `chunk` tokens.
inline std::vector<float> run_with_image(Model& model,
                                         const std::vector<std::int32_t>& tokens,
                                         const std::vector<float>& features,
                                         std::int64_t chunk) {
  const auto num_tokens = static_cast<std::int64_t>(tokens.size());
  const std::int64_t first = std::ranges::find(tokens, kImageToken) - tokens.begin();
  const auto num_rows = static_cast<std::int64_t>(features.size()) / model.hidden_size();
  model.allocate_cache(num_tokens / 16 + 1, 16);
  std::vector<float> logits(static_cast<std::size_t>(num_tokens * model.vocab_size()));
  for (std::int64_t begin = 0; begin < num_tokens; begin += chunk) {
    const std::int64_t end = std::min(begin + chunk, num_tokens);
    ops::Batch batch;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int32_t token = tokens[static_cast<std::size_t>(i)];
      batch.token_ids.push_back(token == kImageToken ? 0 : token);
      batch.positions.push_back(static_cast<std::int32_t>(i));
      batch.logit_rows.push_back(static_cast<std::int32_t>(i - begin));
    }
    const std::int64_t from = std::max(first, begin);
    const std::int64_t to = std::min(first + num_rows, end);
    if (from < to) {
      batch.given_rows.push_back(
          {.first_row = from - begin,
           .count = to - from,
           .values = features.data() + (from - first) * model.hidden_size()});
    }
    ops::SequenceSlice slice = {.num_tokens = end - begin, .context_len = end, .block_table = {}};
    slice.block_table.resize(static_cast<std::size_t>(num_tokens / 16 + 1));
    std::iota(slice.block_table.begin(), slice.block_table.end(), 0);
    batch.sequences = {slice};
    model.forward(batch, ops::Phase::Prefill,
                  TensorView(logits.data() + begin * model.vocab_size(), DType::F32,
                             {end - begin, model.vocab_size()}));
  }
  return logits;
}

// A picture of tests/fixtures/images, prepared for the model.
inline vision::PreparedImage picture(const std::string& name, const OpenModel& open) {
  std::ifstream in(test_data("fixtures/images") / name, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const vision::Image image = vision::decode_image(std::as_bytes(std::span(bytes)));
  return vision::prepare(image, open.source().config().vision->processor);
}

struct VisionTolerance {
  double features = 2e-4;
  double logits = 2e-3;
};

inline void expect_llava(OpenModel& open, const VisionTolerance& tolerance) {
  const auto reference = golden_checkpoint("llava") / "reference.safetensors";
  vision::PreparedImage image = {
      .original = {.width = 56, .height = 56}, .tile_size = 56, .num_tiles = 1};
  image.pixels = read_tensor<float>(reference, "pixel_values");
  const std::vector<float> features = open.model().encode_image(image);
  EXPECT_LE(vision_error(features, read_tensor<float>(reference, "image_features")),
            tolerance.features);
  ASSERT_NE(open.model().vision_tower(), nullptr);
  EXPECT_EQ(num_image_tokens(*open.model().vision_tower(), image), 16);
  const auto tokens = read_tensor<std::int32_t>(reference, "input_ids");
  const auto want = read_tensor<float>(reference, "logits");
  for (const std::int64_t chunk : {1000, 7})
    EXPECT_LE(vision_error(run_with_image(open.model(), tokens, features, chunk), want),
              tolerance.logits);
}

inline void expect_llava_next(OpenModel& open, const VisionTolerance& tolerance) {
  const auto reference = golden_checkpoint("llava-next") / "reference.safetensors";
  for (const std::string name : {"landscape.png", "photo.webp", "portrait.jpg"}) {
    const vision::PreparedImage image = picture(name, open);
    const std::vector<float> features = open.model().encode_image(image);
    EXPECT_LE(vision_error(features, read_tensor<float>(reference, name + ".image_features")),
              tolerance.features)
        << name;
    EXPECT_EQ(num_image_tokens(*open.model().vision_tower(), image) * open.model().hidden_size(),
              static_cast<std::int64_t>(features.size()));
    const auto tokens = read_tensor<std::int32_t>(reference, name + ".input_ids");
    EXPECT_LE(vision_error(run_with_image(open.model(), tokens, features, 1000),
                           read_tensor<float>(reference, name + ".logits")),
              tolerance.logits)
        << name;
  }
}

// A rule file: tower, projector and text model on devices of their own, with a KV cache in f32.
// `exact` are further kwargs of the linear layers and attention on GPUs.
inline std::string vision_rules(const std::string& tower,
                                const std::string& projector,
                                const std::string& text,
                                const std::string& exact) {
  const auto rule = [](const std::string& match, const std::string& device, std::string kwargs) {
    return "- {match: {" + match + "}, replace: {class: default, kwargs: {device: \"" + device +
           "\"" + kwargs + "}}}\n";
  };
  const auto product = [&](const std::string& role, const std::string& device) {
    return rule("role: " + role, device, device == "cpu" ? "" : exact);
  };
  return product("vision_tower", tower) + product("multi_modal_projector", projector) +
         rule("role: kv_cache", text, ", dtype: f32") + product("linear", text) +
         product("attention", text) + rule("name: \".*\"", text, "");
}

}  // namespace graft::models::testing
