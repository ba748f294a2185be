// LLaVA and LLaVA-NeXT against Transformers: features of images, and logits of prompts with them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/formats/safetensors/safetensors_file.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/open_model.h"
#include "graft/models/weights/verify.h"
#include "graft/ops/registry.h"
#include "graft/plan/plan.h"
#include "graft/plan/rules/rules.h"
#include "graft/tensor/device.h"
#include "graft/testing/golden.h"
#include "graft/vision/decode.h"
#include "graft/vision/processor.h"

namespace graft::models {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t kImageToken = 319;

template <class T>
std::vector<T> read_tensor(const fs::path& path, const std::string& name) {
  const formats::SafetensorsFile file(path);
  const auto found = std::ranges::find(file.tensors(), name, &formats::TensorInfo::name);
  EXPECT_NE(found, file.tensors().end()) << name;
  std::vector<T> values(found->data.size() / sizeof(T));
  std::memcpy(values.data(), found->data.data(), found->data.size());
  return values;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  float largest = 0;
  float error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    error = std::max(error, std::abs(got[i] - want[i]));
  }
  EXPECT_LE(error, tolerance * largest);
}

OpenOptions exact_options() {
  return {.rules = std::string(kExactCacheRule), .load = {.repack = false}};
}

// All logits of a prompt whose image tokens have the given features, in passes of `chunk` tokens.
std::vector<float> run(Model& model,
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

vision::PreparedImage picture(const std::string& name, const OpenModel& open) {
  const fs::path path = fs::path(GRAFT_SOURCE_DIR) / "tests/fixtures/images" / name;
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const vision::Image image = vision::decode_image(std::as_bytes(std::span(bytes)));
  return vision::prepare(image, open.source().config().vision->processor);
}

TEST(VisionGolden, LlavaMatchesTransformers) {
  const fs::path folder = golden_checkpoint("llava");
  const fs::path reference = folder / "reference.safetensors";
  OpenModel open(folder, exact_options());
  vision::PreparedImage image = {
      .original = {.width = 56, .height = 56}, .tile_size = 56, .num_tiles = 1};
  image.pixels = read_tensor<float>(reference, "pixel_values");
  const std::vector<float> features = open.model().encode_image(image);
  expect_near(features, read_tensor<float>(reference, "image_features"), 2e-4);
  ASSERT_NE(open.model().vision_tower(), nullptr);
  EXPECT_EQ(num_image_tokens(*open.model().vision_tower(), image), 16);
  const auto tokens = read_tensor<std::int32_t>(reference, "input_ids");
  const auto want = read_tensor<float>(reference, "logits");
  expect_near(run(open.model(), tokens, features, 1000), want, 2e-3);
  expect_near(run(open.model(), tokens, features, 7), want, 2e-3);
}

TEST(VisionGolden, LlavaNextMatchesTransformers) {
  const fs::path folder = golden_checkpoint("llava-next");
  const fs::path reference = folder / "reference.safetensors";
  OpenModel open(folder, exact_options());
  for (const std::string name : {"landscape.png", "photo.webp", "portrait.jpg"}) {
    const vision::PreparedImage image = picture(name, open);
    const std::vector<float> features = open.model().encode_image(image);
    expect_near(features, read_tensor<float>(reference, name + ".image_features"), 1e-3);
    EXPECT_EQ(num_image_tokens(*open.model().vision_tower(), image) * open.model().hidden_size(),
              static_cast<std::int64_t>(features.size()));
    const auto tokens = read_tensor<std::int32_t>(reference, name + ".input_ids");
    expect_near(run(open.model(), tokens, features, 1000),
                read_tensor<float>(reference, name + ".logits"), 2e-3);
  }
}

TEST(VisionGolden, PackedWeightsAreClose) {
  const fs::path folder = golden_checkpoint("llava");
  OpenModel exact(folder, exact_options());
  OpenModel packed(folder, {.rules = std::string(kExactCacheRule)});
  const vision::PreparedImage image = picture("photo.webp", exact);
  expect_near(packed.model().encode_image(image), exact.model().encode_image(image), 3e-2);
}

plan::PlanResult plan_of(const plan::Blueprint& blueprint, const std::string& text) {
  static const ops::Registry registry = ops::builtin_operators();
  static std::vector<plan::RuleFile> files;
  std::vector<plan::Finding> findings;
  files.push_back(plan::parse_rules(text, "rules", findings));
  EXPECT_TRUE(findings.empty());
  return plan::make_plan(blueprint, files.back(), registry, {.num_gpus = 1, .plan_only = true});
}

TEST(VisionPlan, RunsOnTheCpuOnly) {
  const auto source = open_checkpoint(golden_checkpoint("llava"));
  const plan::Blueprint blueprint = make_blueprint(*source);
  const std::string all =
      R"(- {match: {name: ""}, replace: {class: default, kwargs: {device: "cuda:0"}}})";
  for (const std::string& rules : {std::string("[]"), all}) {
    const plan::PlanResult result = plan_of(blueprint, rules);
    EXPECT_FALSE(plan::has_errors(result.findings)) << plan::findings_text(result.findings);
    EXPECT_EQ(result.plan.at("vision_tower").decode.device(), kCpu);
    EXPECT_EQ(result.plan.at("multi_modal_projector").decode.device(), kCpu);
    EXPECT_EQ(result.plan.at("lm_head").decode.device(), (Device{DeviceType::Cuda, 0}));
  }
  const plan::PlanResult refused = plan_of(
      blueprint,
      R"(- {match: {role: vision_tower}, replace: {class: default, kwargs: {device: "cuda:0"}}})");
  EXPECT_NE(plan::findings_text(refused.findings)
                .find("no operator for role vision_tower on cuda in this build (available: "
                      "cpu.vision_tower)"),
            std::string::npos)
      << plan::findings_text(refused.findings);
}

}  // namespace
}  // namespace graft::models
