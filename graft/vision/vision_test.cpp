// Decoding and preprocessing against Pillow and CLIP's processor of Transformers
// (tests/fixtures/images).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/vision/decode.h"
#include "graft/vision/processor.h"
#include "graft/vision/resize.h"

namespace graft::vision {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPictures[] = {"alpha.png", "gray.png", "landscape.png", "photo.webp",
                                     "portrait.jpg"};

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

fs::path fixtures() {
  return fs::path(GRAFT_SOURCE_DIR) / "tests/fixtures/images";
}

Image decode(std::string_view bytes, const ImageLimits& limits = {}) {
  return decode_image(std::as_bytes(std::span(bytes)), limits);
}

Image fixture(const std::string& name) {
  return decode(read_file(fixtures() / name));
}

// The tensor of a safetensors file.
template <class T>
std::vector<T> read_tensor(const fs::path& path, const std::string& name) {
  const std::string bytes = read_file(path);
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  const Json header = parse_json(std::string_view(bytes).substr(8, header_size), path.string());
  const std::vector<std::size_t> offsets = header.at(name).at("data_offsets");
  std::vector<T> values((offsets[1] - offsets[0]) / sizeof(T));
  std::memcpy(values.data(), bytes.data() + 8 + header_size + offsets[0],
              values.size() * sizeof(T));
  return values;
}

float max_difference(const std::vector<float>& got, const std::vector<float>& want) {
  EXPECT_EQ(got.size(), want.size());
  float max = 0;
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i)
    max = std::max(max, std::abs(got[i] - want[i]));
  return max;
}

std::string error_of(std::string_view bytes, const ImageLimits& limits = {}) {
  try {
    decode(bytes, limits);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(VisionDecode, GivesThePixelsOfPillow) {
  for (const char* name : kPictures) {
    const Image image = fixture(name);
    const auto want =
        read_tensor<std::uint8_t>(fixtures() / "reference.safetensors", std::string(name) + ".rgb");
    ASSERT_EQ(image.rgb.size(), want.size()) << name;
    EXPECT_EQ(image.rgb, want) << name;
  }
}

TEST(VisionProcessor, GivesThePixelValuesOfClip) {
  for (const char* name : kPictures) {
    for (const std::int64_t size : {56, 112}) {
      const auto want = read_tensor<float>(fixtures() / "reference.safetensors",
                                           std::string(name) + ".clip" + std::to_string(size));
      const ProcessorConfig config = {.shortest_edge = size, .crop_size = size};
      const PreparedImage got = prepare(fixture(name), config);
      EXPECT_EQ(got.num_tiles, 1);
      // Values of neighbouring bytes are 0.0145 apart.
      EXPECT_LT(max_difference(got.pixels, want), 1e-5F) << name << size;
    }
  }
}

TEST(VisionProcessor, GivesTheTilesOfLlavaNext) {
  const fs::path folder = fs::path(GRAFT_SOURCE_DIR) / "tests/golden/llava-next";
  ProcessorConfig config = {.shortest_edge = 56, .crop_size = 56};
  // The file has height before width.
  config.grid_pinpoints = {{112, 56}, {56, 112}, {112, 112}, {56, 168}, {168, 56}};
  for (const char* name : {"landscape.png", "photo.webp", "portrait.jpg"}) {
    const auto want =
        read_tensor<float>(folder / "reference.safetensors", std::string(name) + ".pixel_values");
    const PreparedImage got = prepare(fixture(name), config);
    EXPECT_LT(max_difference(got.pixels, want), 1e-5F) << name;
  }
}

TEST(VisionProcessor, HashDependsOnPixelsAndSettings) {
  const Image image = fixture("photo.webp");
  const ProcessorConfig config = {.shortest_edge = 56, .crop_size = 56};
  ProcessorConfig other = config;
  other.mean[0] = 0.5;
  Image changed = image;
  changed.pixel(60, 40)[1] ^= 0x80;
  EXPECT_EQ(prepare(image, config).hash, prepare(image, config).hash);
  EXPECT_NE(prepare(image, config).hash, prepare(image, other).hash);
  EXPECT_NE(prepare(image, config).hash, prepare(changed, config).hash);
}

TEST(VisionProcessor, CropsSmallPicturesWithBlackAround) {
  ProcessorConfig config = {.resizes = false, .crop_size = 4, .mean = {}, .std = {1, 1, 1}};
  Image image(1, 1);
  image.rgb = {255, 0, 255};
  const PreparedImage got = prepare(image, config);
  ASSERT_EQ(got.pixels.size(), 48U);
  EXPECT_EQ(std::ranges::count(got.pixels, 1.0F), 2);
  EXPECT_FLOAT_EQ(got.pixels[2 * 4 + 2], 1.0F);
}

TEST(VisionProcessor, RefusesSidesThatDifferTooMuch) {
  const ProcessorConfig config;
  EXPECT_THROW(prepare(Image(1, 1 << 20), config), Error);
}

TEST(VisionProcessor, UnpadsLikeTransformers) {
  const Unpadded wide = unpad({.width = 200, .height = 50}, {.width = 8, .height = 8});
  EXPECT_EQ(wide.first_row, 3);
  EXPECT_EQ(wide.size, (Size{.width = 8, .height = 2}));
  const Unpadded high = unpad({.width = 64, .height = 120}, {.width = 4, .height = 8});
  EXPECT_EQ(high.first_col, 0);
  EXPECT_EQ(high.size, (Size{.width = 4, .height = 8}));
}

// 2 x 2 pixels: red, green, blue, white.
TEST(VisionDecode, ReadsBmp) {
  std::string bmp(
      "BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x02\0\0\0\x02\0\0\0\x01\0\x18\0\0\0\0\0", 34);
  bmp.resize(54);
  bmp += std::string("\xff\0\0\xff\xff\xff\0\0", 8);  // the lower row: blue, white
  bmp += std::string("\0\0\xff\0\xff\0\0\0", 8);
  const std::vector<std::uint8_t> want = {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255};
  EXPECT_EQ(decode(bmp).rgb, want);
  EXPECT_EQ(error_of(bmp.substr(0, 60)), "BMP image: the file is truncated");
}

TEST(VisionDecode, ReadsTheFirstFrameOfGif) {
  // 3 x 2 pixels of four colors: 0 1 2 / 3 3 0. Codes of 3 bits: clear 0 1 2 3 (3 of 4 bits) …
  const auto code_bytes = [](const std::vector<std::pair<int, int>>& codes) {
    std::string out;
    unsigned buffer = 0;
    int bits = 0;
    for (const auto& [code, width] : codes) {
      buffer |= static_cast<unsigned>(code) << bits;
      for (bits += width; bits >= 8; bits -= 8, buffer >>= 8)
        out += static_cast<char>(buffer & 0xFF);
    }
    return out + static_cast<char>(buffer);
  };
  std::string gif("GIF89a\x03\0\x02\0\x81\0\0", 13);
  gif += std::string("\0\0\0\xff\0\0\0\xff\0\0\0\xff", 12);
  gif += std::string("\x2c\0\0\0\0\x03\0\x02\0\0\x02", 11);
  const std::string data =
      code_bytes({{4, 3}, {0, 3}, {1, 3}, {2, 3}, {3, 4}, {3, 4}, {0, 4}, {5, 4}});
  gif += static_cast<char>(data.size());
  gif += data + std::string("\0\x3b", 2);
  const std::vector<std::uint8_t> want = {0, 0, 0,   255, 0, 0,   0, 255, 0,
                                          0, 0, 255, 0,   0, 255, 0, 0,   0};
  EXPECT_EQ(decode(gif).rgb, want);
  EXPECT_EQ(error_of(gif.substr(0, 30)), "GIF image: the file is truncated");
}

std::string little_endian(std::size_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i)
    bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string riff_chunk(const std::string& name, const std::string& data) {
  return name + little_endian(data.size(), 4) + data + std::string(data.size() % 2, '\0');
}

// Frames of the picture of a file, the first at (x, y), on a canvas.
std::string animation(const std::string& file,
                      std::size_t width,
                      std::size_t height,
                      std::size_t x) {
  const std::string picture = file.substr(12);
  const std::string flags = std::string("\x02\0\0\0", 4);
  const std::string size = little_endian(width - 1, 3) + little_endian(height - 1, 3);
  const std::string rest = little_endian(99, 3) + little_endian(66, 3) + little_endian(100, 3);
  const auto frame = [&](std::size_t at) {
    return riff_chunk("ANMF",
                      little_endian(at / 2, 3) + little_endian(2, 3) + rest + '\0' + picture);
  };
  const std::string chunks = riff_chunk("VP8X", flags + size) +
                             riff_chunk("ANIM", std::string(6, '\x7f')) + frame(x) + frame(0);
  return "RIFF" + little_endian(4 + chunks.size(), 4) + "WEBP" + chunks;
}

TEST(VisionDecode, ReadsTheFirstFrameOfAnAnimatedWebp) {
  const std::string file = read_file(fixtures() / "photo.webp");
  const Image picture = decode(file);
  const auto width = static_cast<std::size_t>(picture.width + 10);
  const auto height = static_cast<std::size_t>(picture.height + 6);
  const std::string animated = animation(file, width, height, 6);
  const Image canvas = decode(animated);
  ASSERT_EQ(canvas.width, picture.width + 10);
  ASSERT_EQ(canvas.height, picture.height + 6);
  for (std::int64_t y = 0; y < canvas.height; ++y) {
    for (std::int64_t x = 0; x < canvas.width; ++x) {
      const std::int64_t inner_x = x - 6;
      const std::int64_t inner_y = y - 4;
      const bool is_inside =
          inner_x >= 0 && inner_x < picture.width && inner_y >= 0 && inner_y < picture.height;
      for (std::int64_t channel = 0; channel < kChannels; ++channel) {
        ASSERT_EQ(canvas.pixel(x, y)[channel],
                  is_inside ? picture.pixel(inner_x, inner_y)[channel] : 0)
            << x << ", " << y;
      }
    }
  }
  EXPECT_EQ(error_of(animation(file, width, height, 12)),
            "WebP image: a frame is larger than the image");
  EXPECT_EQ(error_of(animated.substr(0, 60)), "WebP image: the data is damaged or truncated");
  EXPECT_NE(error_of(animated, {.max_pixels = 100}).find("the limit is 100 pixels"),
            std::string::npos);
}

TEST(VisionDecode, ReportsWhatIsWrong) {
  EXPECT_EQ(error_of(""), "the image has no bytes");
  EXPECT_EQ(error_of("hello"),
            "the image has an unknown format: expected PNG, JPEG, WebP, GIF or BMP");
  const std::string png = read_file(fixtures() / "landscape.png");
  EXPECT_EQ(error_of(png, {.max_pixels = 100}),
            "PNG image: 101 x 67 pixels, the limit is 100 pixels");
  EXPECT_NE(error_of(png, {.max_bytes = 10}).find("the limit is"), std::string::npos);
  EXPECT_EQ(error_of(png.substr(0, 4000)), "PNG image: the file is truncated");
  const std::string jpeg = read_file(fixtures() / "portrait.jpg");
  EXPECT_EQ(error_of(jpeg.substr(0, 2000)), "JPEG image: Premature end of JPEG file");
  const std::string webp = read_file(fixtures() / "photo.webp");
  EXPECT_EQ(error_of(webp.substr(0, 9000)), "WebP image: the data is damaged or truncated");
}

TEST(VisionResize, KeepsAPictureOfTheSameSize) {
  const Image image = fixture("gray.png");
  EXPECT_EQ(resize(image, image.width, image.height).rgb, image.rgb);
  const Image one = resize(image, 1, 1);
  EXPECT_EQ(one.rgb.size(), 3U);
}

}  // namespace
}  // namespace graft::vision
