#include "graft/vision/decode.h"

#include <array>
#include <cstring>
#include <string_view>

#include "graft/base/error.h"
#include "graft/base/text/units.h"
#include "graft/vision/formats/formats.h"

namespace graft::vision {
namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view signature;
  std::string_view at_8;  // after eight bytes; empty: anything
  Image (*decode)(std::span<const std::byte> bytes, const ImageLimits& limits);
};

constexpr std::array kFormats = {
    Format{"\x89PNG\r\n\x1a\n"sv, "", decode_png},
    Format{"\xff\xd8\xff"sv, "", decode_jpeg},
    Format{"RIFF"sv, "WEBP", decode_webp},
    Format{"GIF87a"sv, "", decode_gif},
    Format{"GIF89a"sv, "", decode_gif},
    Format{"BM"sv, "", decode_bmp},
};

bool has_at(std::span<const std::byte> bytes, std::size_t offset, std::string_view text) {
  return bytes.size() >= offset + text.size() &&
         std::memcmp(bytes.data() + offset, text.data(), text.size()) == 0;
}

}  // namespace

void check_size(std::string_view format,
                std::int64_t width,
                std::int64_t height,
                const ImageLimits& limits) {
  if (width < 1 || height < 1) fail(format, " image: ", width, " x ", height, " pixels");
  if (width > limits.max_pixels / height) {
    fail(format, " image: ", width, " x ", height, " pixels, the limit is ", limits.max_pixels,
         " pixels");
  }
}

Image decode_image(std::span<const std::byte> bytes, const ImageLimits& limits) {
  if (bytes.empty()) fail("the image has no bytes");
  if (bytes.size() > limits.max_bytes) {
    fail("the image has ", bytes_text(bytes.size()), ", the limit is ",
         bytes_text(limits.max_bytes));
  }
  for (const Format& format : kFormats) {
    if (has_at(bytes, 0, format.signature) && has_at(bytes, 8, format.at_8))
      return format.decode(bytes, limits);
  }
  fail("the image has an unknown format: expected PNG, JPEG, WebP, GIF or BMP");
}

}  // namespace graft::vision
