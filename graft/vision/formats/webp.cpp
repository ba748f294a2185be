#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <webp/decode.h>

#include "graft/base/error.h"
#include "graft/vision/formats/formats.h"

namespace graft::vision {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kFileHeader = 12;   // "RIFF", size, "WEBP"
constexpr std::size_t kChunkHeader = 8;   // name, size
constexpr std::size_t kFrameHeader = 16;  // of ANMF: x, y, width, height, duration, flags

struct Chunk {
  std::string_view name;
  Bytes data;
};

std::uint32_t number_at(Bytes bytes, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= std::to_integer<std::uint32_t>(bytes[at + i]) << (8 * i);
  return value;
}

// Removes the first chunk from `rest`; nullopt: there is no whole one.
std::optional<Chunk> take_chunk(Bytes& rest) {
  if (rest.size() < kChunkHeader) return std::nullopt;
  const std::size_t size = number_at(rest, 4, 4);
  if (size > rest.size() - kChunkHeader) return std::nullopt;
  const Chunk chunk = {.name = {reinterpret_cast<const char*>(rest.data()), 4},
                       .data = rest.subspan(kChunkHeader, size)};
  rest = rest.subspan(std::min(rest.size(), kChunkHeader + size + size % 2));
  return chunk;
}

std::optional<Chunk> find_chunk(Bytes chunks, std::initializer_list<std::string_view> names) {
  while (const std::optional<Chunk> chunk = take_chunk(chunks)) {
    if (std::ranges::find(names, chunk->name) != names.end()) return chunk;
  }
  return std::nullopt;
}

// A file of one picture. Its alpha channel, in a chunk of its own, is dropped.
std::vector<std::uint8_t> file_of(const Chunk& picture) {
  std::vector<std::uint8_t> file;
  const auto add = [&](std::string_view text) {
    file.insert(file.end(), text.begin(), text.end());
  };
  const auto add_size = [&](std::size_t size) {
    for (unsigned shift = 0; shift < 32; shift += 8)
      file.push_back(static_cast<std::uint8_t>(size >> shift));
  };
  const std::size_t padded = picture.data.size() + picture.data.size() % 2;
  add("RIFF");
  add_size(4 + kChunkHeader + padded);
  add("WEBP");
  add(picture.name);
  add_size(picture.data.size());
  const auto* data = reinterpret_cast<const std::uint8_t*>(picture.data.data());
  file.insert(file.end(), data, data + picture.data.size());
  file.resize(kFileHeader + kChunkHeader + padded);
  return file;
}

void decode_into(std::span<const std::uint8_t> file, Image& image) {
  if (WebPDecodeRGBInto(file.data(), file.size(), image.rgb.data(), image.rgb.size(),
                        static_cast<int>(image.width * kChannels)) == nullptr)
    fail("WebP image: the data is damaged or truncated");
}

// The first frame on a black canvas.
Image decode_first_frame(Bytes bytes, Image canvas) {
  const auto frame = find_chunk(bytes.subspan(std::min(bytes.size(), kFileHeader)), {"ANMF"});
  if (!frame || frame->data.size() < kFrameHeader)
    fail("WebP image: the data is damaged or truncated");
  const std::int64_t x = 2 * std::int64_t{number_at(frame->data, 0, 3)};
  const std::int64_t y = 2 * std::int64_t{number_at(frame->data, 3, 3)};
  const auto picture = find_chunk(frame->data.subspan(kFrameHeader), {"VP8 ", "VP8L"});
  if (!picture) fail("WebP image: the data is damaged or truncated");
  const std::vector<std::uint8_t> file = file_of(*picture);
  int width = 0;
  int height = 0;
  if (WebPGetInfo(file.data(), file.size(), &width, &height) == 0)
    fail("WebP image: the data is damaged or truncated");
  if (x + width > canvas.width || y + height > canvas.height)
    fail("WebP image: a frame is larger than the image");
  Image decoded(width, height);
  decode_into(file, decoded);
  const std::int64_t row_bytes = width * kChannels;
  for (std::int64_t row = 0; row < height; ++row) {
    std::copy_n(decoded.rgb.begin() + row * row_bytes, row_bytes,
                canvas.rgb.begin() + ((y + row) * canvas.width + x) * kChannels);
  }
  return canvas;
}

}  // namespace

Image decode_webp(std::span<const std::byte> bytes, const ImageLimits& limits) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  WebPBitstreamFeatures features = {};
  if (WebPGetFeatures(data, bytes.size(), &features) != VP8_STATUS_OK)
    fail("WebP image: the header is damaged");
  check_size("WebP", features.width, features.height, limits);
  Image image(features.width, features.height);
  if (features.has_animation != 0) return decode_first_frame(bytes, std::move(image));
  decode_into({data, bytes.size()}, image);
  return image;
}

}  // namespace graft::vision
