// Decodes pictures in PNG, JPEG, WebP, GIF (its first frame) and BMP from untrusted bytes. Colors
// are those of Pillow's convert("RGB"): the alpha channel is dropped, gray is repeated, and the
// EXIF orientation is ignored, as CLIPImageProcessor does.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graft/vision/image.h"

namespace graft::vision {

struct ImageLimits {
  std::size_t max_bytes = std::size_t{32} << 20U;     // of the file
  std::int64_t max_pixels = std::int64_t{64} << 20U;  // 200 MB of RGB
};

// Throws Error for another format, damaged bytes, and pictures above the limits. The sizes in the
// file are checked before memory is allocated for them.
Image decode_image(std::span<const std::byte> bytes, const ImageLimits& limits = {});

}  // namespace graft::vision
