// Bicubic resizing with antialiasing, bit for bit as Pillow's Image.resize(…, BICUBIC): two passes,
// columns first, with weights of 22 fraction bits and 8-bit values in between. Throws Error for
// pictures that would need too much memory.

#pragma once

#include <cstdint>

#include "graft/vision/image.h"

namespace graft::vision {

Image resize(const Image& image, std::int64_t width, std::int64_t height);

}  // namespace graft::vision
