// A decoded picture: 8-bit RGB, rows from top to bottom, without padding.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace graft::vision {

inline constexpr std::int64_t kChannels = 3;

struct Image {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<std::uint8_t> rgb = {};  // [height, width, 3]

  Image() = default;
  // Black.
  Image(std::int64_t image_width, std::int64_t image_height)
      : width(image_width),
        height(image_height),
        rgb(static_cast<std::size_t>(image_width * image_height * kChannels)) {}

  std::uint8_t* pixel(std::int64_t x, std::int64_t y) {
    return rgb.data() + (y * width + x) * kChannels;
  }
  const std::uint8_t* pixel(std::int64_t x, std::int64_t y) const {
    return rgb.data() + (y * width + x) * kChannels;
  }
};

}  // namespace graft::vision
