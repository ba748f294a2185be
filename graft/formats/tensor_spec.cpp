#include "graft/formats/tensor_spec.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "graft/base/error.h"

namespace graft::formats {
namespace {

constexpr std::size_t kMaxPrintedBytes = 200;

struct LeadByte {
  std::size_t length = 0;  // bytes of the sequence, 0: not a lead byte
  unsigned min = 0;        // smallest code point that needs this length
  unsigned bits = 0;       // bits of the code point in the lead byte
};

LeadByte lead_byte(unsigned byte) {
  if (byte < 0x80) return {1, 0, byte};
  if (byte >= 0xC2 && byte < 0xE0) return {2, 0x80, byte & 0x1FU};
  if (byte >= 0xE0 && byte < 0xF0) return {3, 0x800, byte & 0x0FU};
  if (byte >= 0xF0 && byte < 0xF5) return {4, 0x10000, byte & 0x07U};
  return {};
}

// Length of the first UTF-8 sequence of `text`, 0 when it is malformed.
std::size_t utf8_length(std::string_view text) {
  const LeadByte lead = lead_byte(static_cast<unsigned char>(text[0]));
  if (lead.length == 0 || lead.length > text.size()) return 0;
  unsigned code = lead.bits;
  for (std::size_t i = 1; i < lead.length; ++i) {
    const unsigned byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0U) != 0x80U) return 0;
    code = code << 6U | (byte & 0x3FU);
  }
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return code < lead.min || code > 0x10FFFF || surrogate ? 0 : lead.length;
}

}  // namespace

std::uint64_t tensor_bytes(std::string_view subject,
                           DType dtype,
                           std::span<const std::int64_t> shape,
                           std::int64_t min_dim) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  const std::int64_t block_elems = info(dtype).block_elems;
  const std::int64_t row = shape.empty() ? 1 : shape.back();
  for (const std::int64_t dim : shape) {
    if (dim < min_dim) {
      fail(subject, ": shape ", shape_text(shape), " has a dimension of ", dim,
           ", expected at least ", min_dim);
    }
  }
  if (row % block_elems != 0) {
    fail(subject, ": rows of ", row, " values are not a multiple of the block of ", block_elems,
         " values of ", name(dtype));
  }
  // A zero among the dimensions makes the product 0 whatever the others are.
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  std::int64_t elems = 1;
  for (const std::int64_t dim : shape) {
    if (dim > kMax / elems) fail(subject, ": shape ", shape_text(shape), " overflows 64 bits");
    elems *= dim;
  }
  if (elems / block_elems > kMax / info(dtype).block_bytes) {
    fail(subject, ": ", elems, " values of ", name(dtype), " overflow 64 bits of bytes");
  }
  return bytes_of(dtype, elems);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t dim : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + "]";
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool is_clean_text(std::string_view text) {
  const auto is_control = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7F;
  };
  return std::ranges::none_of(text, is_control) && is_utf8(text);
}

std::string printable(std::string_view text) {
  std::string out(text.substr(0, kMaxPrintedBytes));
  std::ranges::replace_if(
      out, [](char c) { return c < 0x20 || c > 0x7E; }, '?');
  return text.size() > kMaxPrintedBytes ? out + "..." : out;
}

void sort_ranges(std::vector<ByteRange>& ranges) {
  std::ranges::sort(ranges, {}, [](const ByteRange& range) {
    return std::tuple(range.begin, range.end, range.owner);
  });
}

}  // namespace graft::formats
