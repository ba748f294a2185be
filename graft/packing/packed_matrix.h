// A packed matrix in memory (panel_layout.h). Each NUMA node holds one slice of its rows:
//
//     rows  0 .. 159    slice 0, in an arena of node 0
//     rows 160 .. 351   slice 1, in an arena of node 1
//
// A slice is consecutive panels. A matrix from the cache file, or on one node, is one slice. Before
// a matrix that stays in the cache file is multiplied, its disk() panels must be verified.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graft/packing/disk_panels.h"
#include "graft/packing/panel_layout.h"
#include "graft/tensor/dtype.h"

namespace graft::packing {

// Slices begin at multiples of two panels: the kernels multiply two panels at a time.
inline constexpr std::int64_t kSliceRows = 2 * kPanelRows;

class PackedMatrix {
 public:
  // Rows [begin, end).
  struct Slice {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    const std::byte* panels = nullptr;
  };

  PackedMatrix() = default;
  // `slices` are in ascending order and cover all rows; `owner` keeps their memory alive.
  PackedMatrix(DType dtype,
               std::int64_t rows,
               std::int64_t cols,
               std::vector<Slice> slices,
               std::shared_ptr<const void> owner,
               std::shared_ptr<const DiskPanels> disk = {});

  DType dtype() const { return dtype_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  bool empty() const { return slices_.empty(); }
  std::size_t bytes() const;
  std::span<const Slice> slices() const { return slices_; }
  const DiskPanels* disk() const { return disk_.get(); }  // null: in memory
  // The panel of rows [row, row + 16); `row` is a multiple of 16.
  const std::byte* panel(std::int64_t row) const;
  // The panel of rows [row, row + 16) of a slice.
  const std::byte* panel(const Slice& slice, std::int64_t row) const;

 private:
  DType dtype_ = DType::F32;
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
  std::vector<Slice> slices_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<const DiskPanels> disk_;
};

}  // namespace graft::packing
