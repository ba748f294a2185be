#include "graft/models/vision_encoder.h"

#include <algorithm>
#include <variant>

#include "graft/base/check.h"

namespace graft::models {
namespace {

using ops::Workspace;
using vision::PreparedImage;

// Of the features of the grid's tiles, those of the picture.
vision::Unpadded unpadded(const ops::VisionTowerParams& tower, const PreparedImage& image) {
  const std::int64_t side = tower.image_size / tower.patch_size;
  return vision::unpad(image.original,
                       {.width = image.grid.width * side, .height = image.grid.height * side});
}

// A row of zeros, then the patches by row: [channels, patch_size, patch_size] of each.
void copy_patches(const float* pixels, const ops::VisionTowerParams& tower, TensorView patches) {
  std::fill_n(patches.f32_row(0), patches.cols(), 0.0F);
  const std::int64_t size = tower.image_size;
  const std::int64_t patch = tower.patch_size;
  const std::int64_t side = size / patch;
  for (std::int64_t i = 0; i < side * side; ++i) {
    float* out = patches.f32_row(1 + i);
    const float* corner = pixels + i / side * patch * size + i % side * patch;
    for (std::int64_t channel = 0; channel < vision::kChannels; ++channel) {
      for (std::int64_t row = 0; row < patch; ++row)
        out = std::copy_n(corner + (channel * size + row) * size, patch, out);
    }
  }
}

// On the host, or (elsewhere) in the workspace of the device.
TensorView on_device(Device device, TensorView host, ops::Pass& pass) {
  if (device == kCpu) return host;
  const TensorView there = pass.workspace.f32({host.rows(), host.cols()});
  pass.devices->copy(host, there);
  return there;
}

}  // namespace

std::int64_t num_image_tokens(const ops::VisionTowerParams& tower, const PreparedImage& image) {
  if (image.grid.width == 0) return tower.num_features();
  const vision::Size size = unpadded(tower, image).size;
  return tower.num_features() + size.height * (size.width + 1);
}

std::optional<VisionEncoder> VisionEncoder::make(const plan::Plan& plan, OperatorTree& operators) {
  const auto find = [&](ops::Role role) {
    return std::ranges::find_if(plan.placements, [&](const plan::Placement& placement) {
      return placement.module->role == role;
    });
  };
  const auto tower = find(ops::Role::VisionTower);
  const auto projector = find(ops::Role::Projector);
  if (tower == plan.placements.end() || projector == plan.placements.end()) return std::nullopt;
  constexpr ops::Phase kPhase = ops::Phase::Prefill;
  VisionEncoder encoder;
  encoder.tower_params_ = std::get<ops::VisionTowerParams>(tower->module->params);
  encoder.hidden_size_ = std::get<ops::ProjectorParams>(projector->module->params).hidden_size;
  encoder.tower_device_ = tower->running(kPhase).device();
  encoder.projector_device_ = projector->running(kPhase).device();
  encoder.tower_ = dynamic_cast<ops::VisionTower*>(operators.at(tower->module->name).of(kPhase));
  encoder.projector_ =
      dynamic_cast<ops::Projector*>(operators.at(projector->module->name).of(kPhase));
  GRAFT_CHECK(encoder.tower_ != nullptr && encoder.projector_ != nullptr,
              "the vision tower has no operator");
  return encoder;
}

std::vector<float> VisionEncoder::encode(const PreparedImage& image,
                                         ThreadPool& pool,
                                         ops::PassDevices& devices,
                                         ops::Profiler* profiler) const {
  GRAFT_CHECK(image.tile_size == tower_params_.image_size, "an image of ", image.tile_size,
              " pixels for a tower of ", tower_params_.image_size);
  const std::int64_t tile_elems = tower_params_.num_features() * hidden_size_;
  std::vector<float> features(static_cast<std::size_t>(image.num_tiles * tile_elems));
  for (std::int64_t tile = 0; tile < image.num_tiles; ++tile) {
    encode_tile(image.pixels.data() + tile * image.tile_elems(),
                features.data() + tile * tile_elems, pool, devices, profiler);
  }
  return image.grid.width == 0 ? features : arrange(image, features);
}

void VisionEncoder::warm_up(ThreadPool& pool, ops::PassDevices& devices) const {
  if (tower_device_ == kCpu && projector_device_ == kCpu) return;
  const std::int64_t size = tower_params_.image_size;
  const vision::PreparedImage empty = {
      .original = {.width = size, .height = size},
      .tile_size = size,
      .num_tiles = 1,
      .pixels = std::vector<float>(static_cast<std::size_t>(vision::kChannels * size * size))};
  encode(empty, pool, devices, nullptr);
}

void VisionEncoder::encode_tile(const float* pixels,
                                float* out,
                                ThreadPool& pool,
                                ops::PassDevices& devices,
                                ops::Profiler* profiler) const {
  const ops::Batch batch;
  ops::Pass pass{.batch = batch,
                 .phase = ops::Phase::Prefill,
                 .pool = pool,
                 .workspace = devices.at(kCpu).workspace(),
                 .profiler = profiler,
                 .devices = &devices};
  const Workspace::Scope scope(pass.workspace);
  ops::Pass at_tower = ops::on(tower_device_, pass);
  const Workspace::Scope tower_scope(at_tower.workspace);
  ops::Pass at_projector = ops::on(projector_device_, pass);
  const Workspace::Scope projector_scope(at_projector.workspace);
  const std::int64_t patch_elems =
      vision::kChannels * tower_params_.patch_size * tower_params_.patch_size;
  const TensorView patches = pass.workspace.f32({tower_params_.num_tokens(), patch_elems});
  copy_patches(pixels, tower_params_, patches);
  const std::int64_t rows = tower_params_.num_features();
  TensorView features = at_tower.workspace.f32({rows, tower_params_.hidden_size});
  tower_->forward(on_device(tower_device_, patches, at_tower), features, at_tower);
  if (projector_device_ != tower_device_) {
    const TensorView moved = at_projector.workspace.f32({rows, tower_params_.hidden_size});
    devices.copy(features, moved);
    features = moved;
  }
  const TensorView projected = at_projector.workspace.f32({rows, hidden_size_});
  projector_->forward(features, projected, at_projector);
  devices.copy(projected, TensorView(out, DType::F32, {rows, hidden_size_}));
}

// The features of the whole picture, then those of the tiles as one grid without its padding, each
// row followed by the newline embedding.
std::vector<float> VisionEncoder::arrange(const PreparedImage& image,
                                          const std::vector<float>& features) const {
  const std::int64_t side = tower_params_.image_size / tower_params_.patch_size;
  const std::int64_t tile_elems = tower_params_.num_features() * hidden_size_;
  const vision::Unpadded area = unpadded(tower_params_, image);
  std::vector<float> out(features.begin(), features.begin() + tile_elems);
  for (std::int64_t y = area.first_row; y < area.first_row + area.size.height; ++y) {
    for (std::int64_t x = area.first_col; x < area.first_col + area.size.width; ++x) {
      const std::int64_t tile = 1 + y / side * image.grid.width + x / side;
      const auto from =
          features.begin() + tile * tile_elems + (y % side * side + x % side) * hidden_size_;
      out.insert(out.end(), from, from + hidden_size_);
    }
    out.insert(out.end(), projector_->newline().begin(), projector_->newline().end());
  }
  return out;
}

}  // namespace graft::models
