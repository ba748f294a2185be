// The description of a tensor to be written, and the checks on names and shapes that all file
// formats share.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/tensor/dtype.h"

namespace graft::formats {

struct TensorSpec {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;  // outermost first, [] for a scalar
};

// Bytes of a tensor whose rows are whole blocks. Throws Error (subject: `subject`) when a dimension
// is below `min_dim`, a row is not a multiple of the block, or the size overflows.
std::uint64_t tensor_bytes(std::string_view subject,
                           DType dtype,
                           std::span<const std::int64_t> shape,
                           std::int64_t min_dim);

// "[2, 3]"
std::string shape_text(std::span<const std::int64_t> shape);

bool is_utf8(std::string_view text);
// Valid UTF-8 without control characters: names are printed on one line and written as JSON.
bool is_clean_text(std::string_view text);
// A name from a file for a message: bytes other than printable ASCII become '?', long names are
// cut.
std::string printable(std::string_view text);

// File bytes [begin, end) and the index of the tensor they belong to.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::size_t owner = 0;
};

// Sorts by position; an empty range precedes one that begins at the same byte.
void sort_ranges(std::vector<ByteRange>& ranges);

}  // namespace graft::formats
