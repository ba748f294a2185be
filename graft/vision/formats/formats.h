// The decoders of single formats: see decode.h. `bytes` start with the format's signature.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "graft/vision/decode.h"
#include "graft/vision/image.h"

namespace graft::vision {

Image decode_png(std::span<const std::byte> bytes, const ImageLimits& limits);
Image decode_jpeg(std::span<const std::byte> bytes, const ImageLimits& limits);
Image decode_webp(std::span<const std::byte> bytes, const ImageLimits& limits);
Image decode_gif(std::span<const std::byte> bytes, const ImageLimits& limits);
Image decode_bmp(std::span<const std::byte> bytes, const ImageLimits& limits);

// Throws Error for an empty picture and for one above the limit.
void check_size(std::string_view format,
                std::int64_t width,
                std::int64_t height,
                const ImageLimits& limits);

}  // namespace graft::vision
