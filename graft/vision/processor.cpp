#include "graft/vision/processor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <xxhash.h>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/vision/resize.h"

namespace graft::vision {
namespace {

double ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

// Python's int(round(x, 7)).
std::int64_t rounded_down(double x) {
  return static_cast<std::int64_t>(std::nearbyint(x * 1e7) / 1e7);
}

// The part of a picture from (left, top) on; black outside of the picture.
Image crop(const Image& image, std::int64_t left, std::int64_t top, Size size) {
  Image out(size.width, size.height);
  const std::int64_t begin = std::max<std::int64_t>(left, 0);
  const std::int64_t end = std::min(left + size.width, image.width);
  for (std::int64_t y = std::max<std::int64_t>(top, 0);
       y < std::min(top + size.height, image.height) && begin < end; ++y)
    std::copy_n(image.pixel(begin, y), (end - begin) * kChannels, out.pixel(begin - left, y - top));
  return out;
}

// Python's floor division by 2.
std::int64_t half(std::int64_t x) {
  return x >= 0 ? x / 2 : -((1 - x) / 2);
}

Size resized_size(Size size, const ProcessorConfig& config) {
  if (config.shortest_edge == 0) return config.size;
  const std::int64_t edge = config.shortest_edge;
  const auto longer = [&](std::int64_t long_edge, std::int64_t short_edge) {
    return static_cast<std::int64_t>(ratio(edge * long_edge, short_edge));
  };
  if (size.width <= size.height) return {.width = edge, .height = longer(size.height, size.width)};
  return {.width = longer(size.width, size.height), .height = edge};
}

// Resizes, crops and appends the pixel values.
void append_tile(const Image& image, const ProcessorConfig& config, std::vector<float>& pixels) {
  const Size size = {.width = image.width, .height = image.height};
  const Size wanted = config.resizes ? resized_size(size, config) : size;
  Image tile = resize(image, wanted.width, wanted.height);
  const std::int64_t side = config.crop_size;
  if (config.crops) {
    const std::int64_t left = half(tile.width - side);
    tile = crop(tile, left, half(tile.height - side), {.width = side, .height = side});
  }
  if (tile.width != side || tile.height != side) {
    fail("preprocessing makes images of ", tile.width, " x ", tile.height,
         " pixels, the tower takes ", side, " x ", side);
  }
  for (std::size_t c = 0; c < static_cast<std::size_t>(kChannels); ++c) {
    for (std::size_t i = c; i < tile.rgb.size(); i += static_cast<std::size_t>(kChannels)) {
      const double value = tile.rgb[i] * config.rescale_factor;
      pixels.push_back(static_cast<float>((value - config.mean[c]) / config.std[c]));
    }
  }
}

// The picture in the middle of a black one of the given resolution.
Image fit(const Image& image, Size resolution) {
  const double by_width = ratio(resolution.width, image.width);
  const double by_height = ratio(resolution.height, image.height);
  Size size = resolution;
  const auto scaled = [](std::int64_t length, double scale) {
    return std::max<std::int64_t>(
        static_cast<std::int64_t>(std::ceil(static_cast<double>(length) * scale)), 1);
  };
  if (by_width < by_height) {
    size.height = std::min(scaled(image.height, by_width), resolution.height);
  } else {
    size.width = std::min(scaled(image.width, by_height), resolution.width);
  }
  const Image resized = resize(image, size.width, size.height);
  return crop(resized, -((resolution.width - size.width) / 2),
              -((resolution.height - size.height) / 2), resolution);
}

ImageHash hash_of(const PreparedImage& image) {
  const XXH128_hash_t pixels =
      XXH3_128bits(image.pixels.data(), image.pixels.size() * sizeof(float));
  const std::array<std::uint64_t, 8> all = {static_cast<std::uint64_t>(image.original.width),
                                            static_cast<std::uint64_t>(image.original.height),
                                            static_cast<std::uint64_t>(image.tile_size),
                                            static_cast<std::uint64_t>(image.num_tiles),
                                            static_cast<std::uint64_t>(image.grid.width),
                                            static_cast<std::uint64_t>(image.grid.height),
                                            pixels.high64,
                                            pixels.low64};
  const XXH128_hash_t hash = XXH3_128bits(all.data(), sizeof(all));
  return {.high = hash.high64, .low = hash.low64};
}

}  // namespace

PreparedImage prepare(const Image& image, const ProcessorConfig& config) {
  PreparedImage out;
  out.original = {.width = image.width, .height = image.height};
  out.tile_size = config.crop_size;
  if (config.grid_pinpoints.empty()) {
    append_tile(image, config, out.pixels);
    out.num_tiles = 1;
    out.hash = hash_of(out);
    return out;
  }
  const Size resolution = best_resolution(out.original, config.grid_pinpoints);
  const std::int64_t side = config.crop_size;
  out.grid = {.width = resolution.width / side, .height = resolution.height / side};
  GRAFT_CHECK(out.grid.width > 0 && out.grid.height > 0, "tiles of ", side, " pixels in ",
              resolution.width, " x ", resolution.height);
  const std::int64_t base = config.shortest_edge > 0 ? config.shortest_edge : config.size.width;
  const std::int64_t base_height = config.shortest_edge > 0 ? base : config.size.height;
  append_tile(resize(image, base, base_height), config, out.pixels);
  const Image whole = fit(image, resolution);
  for (std::int64_t row = 0; row < out.grid.height; ++row) {
    for (std::int64_t col = 0; col < out.grid.width; ++col) {
      append_tile(crop(whole, col * side, row * side, {.width = side, .height = side}), config,
                  out.pixels);
    }
  }
  out.num_tiles = 1 + out.grid.width * out.grid.height;
  out.hash = hash_of(out);
  return out;
}

Size best_resolution(Size original, const std::vector<Size>& resolutions) {
  GRAFT_CHECK(!resolutions.empty(), "no resolutions");
  Size best;
  std::int64_t max_effective = 0;
  std::int64_t min_wasted = std::numeric_limits<std::int64_t>::max();
  for (const Size& size : resolutions) {
    const double scale =
        std::min(ratio(size.width, original.width), ratio(size.height, original.height));
    const auto width = static_cast<std::int64_t>(static_cast<double>(original.width) * scale);
    const auto height = static_cast<std::int64_t>(static_cast<double>(original.height) * scale);
    const std::int64_t effective = std::min(width * height, original.width * original.height);
    const std::int64_t wasted = size.width * size.height - effective;
    const bool is_better =
        effective > max_effective || (effective == max_effective && wasted < min_wasted);
    if (!is_better) continue;
    max_effective = effective;
    min_wasted = wasted;
    best = size;
  }
  return best;
}

Unpadded unpad(Size original, Size grid) {
  Unpadded out = {.size = grid};
  if (ratio(original.width, original.height) > ratio(grid.width, grid.height)) {
    const double scale = ratio(grid.width, original.width);
    const std::int64_t height = rounded_down(static_cast<double>(original.height) * scale);
    out.first_row = (grid.height - height) / 2;
    out.size.height = grid.height - 2 * out.first_row;
  } else {
    const double scale = ratio(grid.height, original.height);
    const std::int64_t width = rounded_down(static_cast<double>(original.width) * scale);
    out.first_col = (grid.width - width) / 2;
    out.size.width = grid.width - 2 * out.first_col;
  }
  return out;
}

}  // namespace graft::vision
