// Fuzzes safetensors files: parsing either succeeds or throws Error. All bytes of an accepted file
// must be readable.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "graft/base/error.h"
#include "graft/formats/safetensors/safetensors_file.h"

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string where = "fuzz.safetensors";
  try {
    const auto part =
        graft::formats::parse_safetensors(std::as_bytes(std::span(data, size)), where);
    unsigned sum = 0;
    for (const auto& tensor : part.tensors) {
      for (const std::byte value : tensor.data)
        sum += std::to_integer<unsigned>(value);
    }
    volatile unsigned sink = sum;
    static_cast<void>(sink);
  } catch (const graft::Error&) {
    return 0;
  }
  return 0;
}
