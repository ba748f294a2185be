// From a picture to the pixel values of a CLIP vision tower, as the classes of Hugging Face
// compute them: CLIPImageProcessor (LLaVA 1.5) and LlavaNextImageProcessor, which adds tiles in the
// best of several resolutions (LLaVA-NeXT).

#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <vector>

#include "graft/vision/image.h"

namespace graft::vision {

struct Size {
  std::int64_t width = 0;
  std::int64_t height = 0;

  bool operator==(const Size&) const = default;
};

// preprocessor_config.json; the defaults are those of CLIP at 336 pixels.
struct ProcessorConfig {
  std::int64_t shortest_edge = 336;  // 0: pictures are resized to `size`
  Size size = {};
  bool resizes = true;
  bool crops = true;
  std::int64_t crop_size = 336;  // the side of the square that the tower takes
  double rescale_factor = 1.0 / 255.0;
  std::array<double, 3> mean = {0.48145466, 0.4578275, 0.40821073};
  std::array<double, 3> std = {0.26862954, 0.26130258, 0.27577711};
  // LLaVA-NeXT: the resolutions of tiles. Empty: there are no tiles.
  std::vector<Size> grid_pinpoints = {};

  bool operator==(const ProcessorConfig&) const = default;
};

// A 128-bit hash of pixel values.
struct ImageHash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  auto operator<=>(const ImageHash&) const = default;
};

// What the tower reads.
struct PreparedImage {
  Size original = {};
  std::int64_t tile_size = 0;
  std::int64_t num_tiles = 0;      // the whole picture first, then the tiles of the grid by row
  Size grid = {};                  // in tiles; 0 x 0: there is no grid
  std::vector<float> pixels = {};  // [num_tiles, 3, tile_size, tile_size]
  ImageHash hash = {};             // of all of the above

  std::int64_t tile_elems() const { return kChannels * tile_size * tile_size; }
};

PreparedImage prepare(const Image& image, const ProcessorConfig& config);

// The resolution that keeps most of the picture's pixels; of equal ones that which wastes least.
// `resolutions` is not empty.
Size best_resolution(Size original, const std::vector<Size>& resolutions);

// Of a grid of `grid` features: the part without the padding around a picture of size `original`
// that was resized to fit into the grid.
struct Unpadded {
  std::int64_t first_row = 0;
  std::int64_t first_col = 0;
  Size size = {};
};
Unpadded unpad(Size original, Size grid);

}  // namespace graft::vision
