#include <webp/decode.h>

#include "graft/base/error.h"
#include "graft/vision/formats/formats.h"

namespace graft::vision {

Image decode_webp(std::span<const std::byte> bytes, const ImageLimits& limits) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  WebPBitstreamFeatures features = {};
  if (WebPGetFeatures(data, bytes.size(), &features) != VP8_STATUS_OK)
    fail("WebP image: the header is damaged");
  if (features.has_animation != 0) fail("WebP image: animations are not supported");
  check_size("WebP", features.width, features.height, limits);
  Image image(features.width, features.height);
  if (WebPDecodeRGBInto(data, bytes.size(), image.rgb.data(), image.rgb.size(),
                        static_cast<int>(image.width * kChannels)) == nullptr)
    fail("WebP image: the data is damaged or truncated");
  return image;
}

}  // namespace graft::vision
