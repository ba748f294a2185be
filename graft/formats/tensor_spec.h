// What a writer must know of a tensor before its data comes, and the checks that every file format
// makes on names and shapes.

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

// Bytes of a tensor in rows of whole blocks. Throws Error, which begins with `subject`, when a
// dimension is below `min_dim`, a row is no multiple of the block, or the size overflows.
std::uint64_t tensor_bytes(std::string_view subject,
                           DType dtype,
                           std::span<const std::int64_t> shape,
                           std::int64_t min_dim);

// "[2, 3]"
std::string shape_text(std::span<const std::int64_t> shape);

bool is_utf8(std::string_view text);
// Valid UTF-8 without control characters: what a name must be to be printed on one line or
// written as JSON.
bool is_clean_text(std::string_view text);
// A name from a file for a message: what is not printable ASCII becomes '?', long names are cut.
std::string printable(std::string_view text);

// An inclusive-exclusive range of file bytes and whose it is.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::size_t owner = 0;
};

// Sorts by position; an empty range stands before the one that begins at the same byte.
void sort_ranges(std::vector<ByteRange>& ranges);

}  // namespace graft::formats
