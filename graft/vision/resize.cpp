#include "graft/vision/resize.h"

#include <algorithm>
#include <cmath>

#include "graft/base/check.h"
#include "graft/base/error.h"

namespace graft::vision {
namespace {

constexpr int kFractionBits = 22;
constexpr double kSupport = 2.0;  // of the filter, in pixels of the smaller picture

// Keys' cubic with a = -0.5.
double bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0.0;
}

// The weights of the input values [first, first + weights.size()) of one output value.
struct Window {
  std::int64_t first = 0;
  std::vector<std::int32_t> weights;
};

std::vector<Window> make_windows(std::int64_t in_size, std::int64_t out_size) {
  const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
  const double filter_scale = std::max(scale, 1.0);
  const double support = kSupport * filter_scale;
  std::vector<Window> windows(static_cast<std::size_t>(out_size));
  std::vector<double> exact;
  for (std::int64_t i = 0; i < out_size; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    // Pillow truncates; a negative begin becomes 0 either way.
    const auto begin = static_cast<std::int64_t>(std::max(std::floor(center - support + 0.5), 0.0));
    const auto end =
        std::min(static_cast<std::int64_t>(std::floor(center + support + 0.5)), in_size);
    exact.clear();
    double sum = 0.0;
    for (std::int64_t x = begin; x < end; ++x) {
      exact.push_back(bicubic((static_cast<double>(x) - center + 0.5) * (1.0 / filter_scale)));
      sum += exact.back();
    }
    Window& window = windows[static_cast<std::size_t>(i)];
    window.first = begin;
    for (const double weight : exact) {
      const double scaled = (sum == 0.0 ? weight : weight / sum) * (1 << kFractionBits);
      window.weights.push_back(static_cast<std::int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5));
    }
  }
  return windows;
}

// The weighted sum of values `stride` apart.
std::uint8_t weighted_sum(const Window& window, const std::uint8_t* values, std::int64_t stride) {
  std::int64_t sum = std::int64_t{1} << (kFractionBits - 1);
  for (std::size_t i = 0; i < window.weights.size(); ++i)
    sum += std::int64_t{window.weights[i]} * values[static_cast<std::int64_t>(i) * stride];
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> kFractionBits, 0, 255));
}

Image resize_columns(const Image& image, std::int64_t width) {
  const std::vector<Window> windows = make_windows(image.width, width);
  Image out(width, image.height);
  for (std::int64_t y = 0; y < image.height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const Window& window = windows[static_cast<std::size_t>(x)];
      for (std::int64_t c = 0; c < kChannels; ++c)
        out.pixel(x, y)[c] = weighted_sum(window, image.pixel(window.first, y) + c, kChannels);
    }
  }
  return out;
}

Image resize_rows(const Image& image, std::int64_t height) {
  const std::vector<Window> windows = make_windows(image.height, height);
  Image out(image.width, height);
  const std::int64_t stride = image.width * kChannels;
  for (std::int64_t y = 0; y < height; ++y) {
    const Window& window = windows[static_cast<std::size_t>(y)];
    const std::uint8_t* first = image.pixel(0, window.first);
    for (std::int64_t i = 0; i < stride; ++i)
      out.pixel(0, y)[i] = weighted_sum(window, first + i, stride);
  }
  return out;
}

}  // namespace

Image resize(const Image& image, std::int64_t width, std::int64_t height) {
  GRAFT_CHECK(image.width > 0 && image.height > 0 && width > 0 && height > 0, "resize ",
              image.width, " x ", image.height, " to ", width, " x ", height);
  if (image.width == width && image.height == height) return image;
  // The pass over the columns comes first: a narrow picture would become very large in between.
  constexpr std::int64_t kMaxPixels = std::int64_t{1} << 27U;
  if (width > kMaxPixels / std::max(image.height, height)) {
    fail("the image has ", image.width, " x ", image.height, " pixels: its sides differ too much");
  }
  if (image.width == width) return resize_rows(image, height);
  Image resized = resize_columns(image, width);
  return image.height == height ? resized : resize_rows(resized, height);
}

}  // namespace graft::vision
