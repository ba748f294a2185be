#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "graft/vision/formats/formats.h"
#include "graft/vision/formats/little_endian.h"

namespace graft::vision {
namespace {

constexpr std::uint32_t kUncompressed = 0;
constexpr std::uint32_t kBitFields = 3;
constexpr std::uint32_t kAlphaBitFields = 6;

struct BmpHeader {
  std::int64_t width = 0;
  std::int64_t height = 0;
  bool is_top_down = false;
  int bits = 0;
  std::array<std::uint32_t, 3> masks = {};  // of red, green and blue; 0: not given
  std::vector<std::uint8_t> palette = {};   // BGR0 or BGR
  std::size_t palette_entry = 4;
  std::size_t data_offset = 0;
};

void read_palette(LittleEndian& in, std::size_t num_colors, BmpHeader& header) {
  if (header.bits > 8) return;
  const std::size_t most = std::size_t{1} << header.bits;
  if (num_colors == 0 || num_colors > most) num_colors = most;
  for (const std::byte value : in.take(num_colors * header.palette_entry))
    header.palette.push_back(std::to_integer<std::uint8_t>(value));
}

BmpHeader read_header(LittleEndian& in) {
  BmpHeader header;
  in.seek(10);
  header.data_offset = in.u32();
  const std::size_t info_begin = in.at();
  const std::uint32_t info_size = in.u32();
  const bool is_core = info_size == 12;
  if (!is_core && info_size < 40) fail("BMP image: a header of ", info_size, " bytes");
  header.width = is_core ? in.u16() : in.i32();
  const std::int64_t height = is_core ? in.u16() : in.i32();
  header.is_top_down = height < 0;
  header.height = header.is_top_down ? -height : height;
  in.u16();  // planes
  header.bits = in.u16();
  if (is_core) header.palette_entry = 3;
  std::uint32_t compression = kUncompressed;
  std::uint32_t num_colors = 0;
  if (!is_core) {
    compression = in.u32();
    in.take(12);  // size of the data, resolution
    num_colors = in.u32();
    in.u32();  // important colors
  }
  const bool has_masks = compression == kBitFields || compression == kAlphaBitFields;
  if (compression != kUncompressed && !has_masks)
    fail("BMP image: compression ", compression, " is not supported");
  constexpr std::array kBits = {1, 4, 8, 16, 24, 32};
  if (std::ranges::find(kBits, header.bits) == kBits.end() || (has_masks && header.bits < 16))
    fail("BMP image: ", header.bits, " bits per pixel are not supported");
  if (has_masks) {
    for (std::uint32_t& mask : header.masks)
      mask = in.u32();
  } else if (header.bits == 16) {
    header.masks = {0x7C00, 0x03E0, 0x001F};
  } else if (header.bits == 32) {
    header.masks = {0xFF0000, 0xFF00, 0xFF};
  }
  in.seek(info_begin + info_size);
  read_palette(in, num_colors, header);
  return header;
}

// The bits of a mask, scaled to 8.
std::uint8_t channel(std::uint32_t pixel, std::uint32_t mask) {
  if (mask == 0) return 0;
  const std::uint32_t value = (pixel & mask) >> std::countr_zero(mask);
  const std::uint64_t most = mask >> std::countr_zero(mask);
  return static_cast<std::uint8_t>((value * std::uint64_t{255} + most / 2) / most);
}

void read_row(const BmpHeader& header, std::span<const std::byte> row, std::uint8_t* rgb) {
  const auto byte_at = [&](std::int64_t i) {
    return std::to_integer<std::uint8_t>(row[static_cast<std::size_t>(i)]);
  };
  for (std::int64_t x = 0; x < header.width; ++x, rgb += kChannels) {
    if (header.bits <= 8) {
      const std::int64_t bit = x * header.bits;
      const int shift = 8 - header.bits - static_cast<int>(bit % 8);
      const auto index =
          static_cast<std::size_t>((byte_at(bit / 8) >> shift) & ((1 << header.bits) - 1));
      const std::size_t at = index * header.palette_entry;
      if (at + 2 >= header.palette.size())
        fail("BMP image: color ", index, " is not in the palette");
      for (std::size_t c = 0; c < 3; ++c)
        rgb[c] = header.palette[at + 2 - c];
      continue;
    }
    const std::int64_t num_bytes = header.bits / 8;
    std::uint32_t pixel = 0;
    for (std::int64_t i = 0; i < num_bytes; ++i)
      pixel |= static_cast<std::uint32_t>(byte_at(x * num_bytes + i)) << (8 * i);
    for (std::size_t c = 0; c < 3; ++c) {
      rgb[c] = header.bits == 24 ? static_cast<std::uint8_t>(pixel >> (8 * (2 - c)))
                                 : channel(pixel, header.masks[c]);
    }
  }
}

}  // namespace

Image decode_bmp(std::span<const std::byte> bytes, const ImageLimits& limits) {
  LittleEndian in("BMP", bytes);
  const BmpHeader header = read_header(in);
  check_size("BMP", header.width, header.height, limits);
  const std::size_t row_bytes =
      static_cast<std::size_t>((header.width * header.bits + 31) / 32) * 4;
  in.seek(header.data_offset);
  const std::span<const std::byte> data =
      in.take(row_bytes * static_cast<std::size_t>(header.height));
  Image image(header.width, header.height);
  for (std::int64_t i = 0; i < header.height; ++i) {
    const std::int64_t y = header.is_top_down ? i : header.height - 1 - i;
    read_row(header, data.subspan(static_cast<std::size_t>(i) * row_bytes, row_bytes),
             image.pixel(0, y));
  }
  return image;
}

}  // namespace graft::vision
