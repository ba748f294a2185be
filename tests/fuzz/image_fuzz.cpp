// Fuzzes pictures: decoding either succeeds or throws Error, and what it returns can be prepared
// for a vision tower.

#include <cstddef>
#include <cstdint>
#include <span>

#include "graft/base/error.h"
#include "graft/vision/decode.h"
#include "graft/vision/processor.h"

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr graft::vision::ImageLimits kLimits = {.max_pixels = 1 << 18};
  const graft::vision::ProcessorConfig plain = {.shortest_edge = 28, .crop_size = 28};
  graft::vision::ProcessorConfig tiled = plain;
  tiled.grid_pinpoints = {{.width = 28, .height = 56}, {.width = 56, .height = 28}};
  try {
    const graft::vision::Image image =
        graft::vision::decode_image(std::as_bytes(std::span(data, size)), kLimits);
    graft::vision::prepare(image, tiled);
    graft::vision::prepare(image, plain);
  } catch (const graft::Error&) {
    return 0;
  }
  return 0;
}
