#include "graft/packing/packed_matrix.h"

#include <algorithm>
#include <utility>

namespace graft::packing {

PackedMatrix::PackedMatrix(DType dtype,
                           std::int64_t rows,
                           std::int64_t cols,
                           std::vector<Slice> slices,
                           std::shared_ptr<const void> owner,
                           std::shared_ptr<const DiskPanels> disk)
    : dtype_(dtype),
      rows_(rows),
      cols_(cols),
      slices_(std::move(slices)),
      owner_(std::move(owner)),
      disk_(std::move(disk)) {}

std::size_t PackedMatrix::bytes() const {
  return static_cast<std::size_t>(packed_bytes(dtype_, rows_, cols_));
}

const std::byte* PackedMatrix::panel(std::int64_t row) const {
  return panel(*std::ranges::find_if(slices_, [&](const Slice& s) { return row < s.end; }), row);
}

const std::byte* PackedMatrix::panel(const Slice& slice, std::int64_t row) const {
  return slice.panels + packed_bytes(dtype_, row - slice.begin, cols_);
}

}  // namespace graft::packing
