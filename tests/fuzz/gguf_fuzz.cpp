// Fuzzes GGUF files: parsing either succeeds or throws Error. All bytes of an accepted file must be
// readable.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "graft/base/error.h"
#include "graft/formats/gguf/gguf_part.h"

namespace {

void read_all(const graft::formats::GgufPart& part) {
  for (const auto& [key, value] : part.metadata.entries()) {
    const auto* array = std::get_if<graft::formats::GgufArray>(&value);
    if (array == nullptr) continue;
    try {
      array->strings();
      array->numbers();
      array->integers();  // throws for numbers above 2^63
    } catch (const graft::Error&) {
      continue;
    }
  }
  unsigned sum = 0;
  for (const auto& tensor : part.tensors) {
    for (const std::byte value : tensor.data)
      sum += std::to_integer<unsigned>(value);
  }
  volatile unsigned sink = sum;
  static_cast<void>(sink);
}

}  // namespace

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string where = "fuzz.gguf";
  try {
    read_all(graft::formats::parse_gguf(std::as_bytes(std::span(data, size)), where));
  } catch (const graft::Error&) {
    return 0;
  }
  return 0;
}
