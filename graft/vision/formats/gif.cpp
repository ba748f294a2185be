#include <algorithm>
#include <array>
#include <vector>

#include "graft/vision/formats/formats.h"
#include "graft/vision/formats/little_endian.h"

namespace graft::vision {
namespace {

using Palette = std::vector<std::uint8_t>;  // RGB

constexpr std::uint8_t kExtension = 0x21;
constexpr std::uint8_t kGraphicControl = 0xF9;
constexpr std::uint8_t kFrame = 0x2C;
constexpr int kMaxCodeBits = 12;

Palette read_palette(LittleEndian& in, std::uint8_t flags) {
  if ((flags & 0x80) == 0) return {};
  const std::size_t num_colors = std::size_t{2} << (flags & 7);
  const std::span<const std::byte> bytes = in.take(num_colors * kChannels);
  Palette palette(bytes.size());
  std::ranges::transform(bytes, palette.begin(),
                         [](std::byte value) { return std::to_integer<std::uint8_t>(value); });
  return palette;
}

// The data of consecutive sub-blocks, each after its size.
std::vector<std::uint8_t> read_sub_blocks(LittleEndian& in) {
  std::vector<std::uint8_t> data;
  while (const std::uint8_t size = in.u8()) {
    for (const std::byte value : in.take(size))
      data.push_back(std::to_integer<std::uint8_t>(value));
  }
  return data;
}

// LZW: codes of growing width, each a known string plus one index.
class LzwReader {
 public:
  LzwReader(std::span<const std::uint8_t> data, int min_bits)
      : data_(data), min_bits_(min_bits), clear_(1 << min_bits) {
    reset();
  }

  // Fills `out`. Throws Error when the data ends before it is full.
  void read(std::span<std::uint8_t> out) {
    std::size_t filled = 0;
    while (filled < out.size()) {
      const int code = next_code();
      if (code == clear_) {
        reset();
        continue;
      }
      if (code == clear_ + 1) fail("GIF image: the data ends early");
      filled += write(code, out.subspan(filled));
    }
  }

 private:
  struct Entry {
    std::int16_t prefix = -1;
    std::uint8_t first = 0;
    std::uint8_t last = 0;
    std::uint16_t length = 1;
  };

  void reset() {
    num_entries_ = clear_ + 2;
    bits_ = min_bits_ + 1;
    previous_ = -1;
    for (int i = 0; i < clear_; ++i) {
      const auto index = static_cast<std::uint8_t>(i);
      entry(i) = {.prefix = -1, .first = index, .last = index, .length = 1};
    }
  }

  Entry& entry(int code) { return entries_[static_cast<std::size_t>(code)]; }

  int next_code() {
    while (num_bits_ < bits_) {
      if (at_ == data_.size()) fail("GIF image: the data ends early");
      buffer_ |= static_cast<std::uint32_t>(data_[at_++]) << num_bits_;
      num_bits_ += 8;
    }
    const auto code = static_cast<int>(buffer_ & ((1U << bits_) - 1));
    buffer_ >>= bits_;
    num_bits_ -= bits_;
    return code;
  }

  // Adds the entry that the code completes, then writes the code's string, cut to the size of
  // `out`.
  std::size_t write(int code, std::span<std::uint8_t> out) {
    const bool is_new = code == num_entries_ && previous_ >= 0;
    if (code > num_entries_ || (code == num_entries_ && !is_new) ||
        (previous_ < 0 && code >= clear_))
      fail("GIF image: invalid code ", code);
    if (previous_ >= 0 && num_entries_ < 1 << kMaxCodeBits) {
      const Entry& before = entry(previous_);
      const std::uint8_t last = is_new ? before.first : entry(code).first;
      entry(num_entries_) = {.prefix = static_cast<std::int16_t>(previous_),
                             .first = before.first,
                             .last = last,
                             .length = static_cast<std::uint16_t>(before.length + 1)};
      ++num_entries_;
      if (num_entries_ == 1 << bits_ && bits_ < kMaxCodeBits) ++bits_;
    } else if (is_new) {
      fail("GIF image: invalid code ", code);
    }
    previous_ = code;
    const std::size_t length = entry(code).length;
    std::size_t at = length;
    for (int i = code; i >= 0; i = entry(i).prefix) {
      --at;
      if (at < out.size()) out[at] = entry(i).last;
    }
    return std::min(length, out.size());
  }

  std::span<const std::uint8_t> data_;
  int min_bits_;
  int clear_;
  int bits_ = 0;
  int num_entries_ = 0;
  int previous_ = -1;
  std::size_t at_ = 0;
  std::uint32_t buffer_ = 0;
  int num_bits_ = 0;
  std::array<Entry, std::size_t{1} << kMaxCodeBits> entries_ = {};
};

// The row of the picture that row `i` of interlaced data holds.
std::int64_t interlaced_row(std::int64_t i, std::int64_t height) {
  constexpr std::array<std::array<std::int64_t, 2>, 4> kPasses = {{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};
  for (const auto& [first, step] : kPasses) {
    const std::int64_t count = first < height ? (height - first + step - 1) / step : 0;
    if (i < count) return first + i * step;
    i -= count;
  }
  return 0;
}

struct GifScreen {
  std::int64_t width = 0;
  std::int64_t height = 0;
  Palette palette;
  int transparent = 0;  // the index around the frame
};

void set_color(const Palette& palette, std::size_t index, std::uint8_t* pixel) {
  if (index * kChannels + 2 < palette.size())
    std::copy_n(palette.data() + index * kChannels, kChannels, pixel);
}

Image read_frame(LittleEndian& in, const GifScreen& screen) {
  const std::int64_t left = in.u16();
  const std::int64_t top = in.u16();
  const std::int64_t width = in.u16();
  const std::int64_t height = in.u16();
  const std::uint8_t flags = in.u8();
  const bool is_interlaced = (flags & 0x40) != 0;
  Palette palette = read_palette(in, flags);
  if (palette.empty()) palette = screen.palette;
  if (palette.empty()) fail("GIF image: the first frame has no colors");
  if (left + width > screen.width || top + height > screen.height || width < 1 || height < 1) {
    fail("GIF image: a frame of ", width, " x ", height, " pixels at ", left, ", ", top,
         " in an image of ", screen.width, " x ", screen.height);
  }
  const int min_bits = in.u8();
  if (min_bits < 1 || min_bits > 8) fail("GIF image: codes of ", min_bits, " bits");
  const std::vector<std::uint8_t> data = read_sub_blocks(in);
  std::vector<std::uint8_t> indices(static_cast<std::size_t>(width * height));
  LzwReader(data, min_bits).read(indices);

  Image image(screen.width, screen.height);
  for (std::int64_t i = 0; i < screen.width * screen.height; ++i) {
    set_color(palette, static_cast<std::size_t>(screen.transparent),
              image.rgb.data() + i * kChannels);
  }
  for (std::int64_t row = 0; row < height; ++row) {
    const std::int64_t y = top + (is_interlaced ? interlaced_row(row, height) : row);
    for (std::int64_t x = 0; x < width; ++x) {
      const std::uint8_t index = indices[static_cast<std::size_t>(row * width + x)];
      set_color(palette, index, image.pixel(left + x, y));
    }
  }
  return image;
}

}  // namespace

Image decode_gif(std::span<const std::byte> bytes, const ImageLimits& limits) {
  LittleEndian in("GIF", bytes);
  in.seek(6);
  GifScreen screen;
  screen.width = in.u16();
  screen.height = in.u16();
  check_size("GIF", screen.width, screen.height, limits);
  const std::uint8_t flags = in.u8();
  in.take(2);  // background color, aspect ratio
  screen.palette = read_palette(in, flags);
  for (;;) {
    const std::uint8_t kind = in.u8();
    if (kind == kFrame) return read_frame(in, screen);
    if (kind != kExtension) fail("GIF image: no frame");
    const std::uint8_t label = in.u8();
    const std::vector<std::uint8_t> data = read_sub_blocks(in);
    if (label == kGraphicControl && data.size() >= 4 && (data[0] & 1) != 0)
      screen.transparent = data[3];
  }
}

}  // namespace graft::vision
