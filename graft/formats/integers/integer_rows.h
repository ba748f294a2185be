// The rows of one weight of packed integers (integer_weights.h) in blocks of Q4_0, Q5_0 or Q8_0.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "graft/formats/weight_source.h"

namespace graft::formats {

// The stored tensors of a weight; null: absent.
struct IntegerTensors {
  const TensorInfo* codes = nullptr;
  const TensorInfo* scales = nullptr;
  const TensorInfo* zeros = nullptr;
  const TensorInfo* group_of_column = nullptr;
};

enum class IntegerPacking : std::uint8_t { CompressedTensors, Bytes, Gptq, Awq };

struct IntegerLayout {
  std::string name;  // of the weight, for messages
  IntegerPacking packing = IntegerPacking::CompressedTensors;
  std::int64_t bits = 4;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t groups = 0;
  bool one_scale = false;  // for all rows
  bool symmetric = true;   // all zeros are in the middle of the codes
  bool zeros_minus_one = false;

  DType dtype() const;
};

class IntegerRows final : public RowSource {
 public:
  // The shapes of the tensors fit the layout.
  IntegerRows(IntegerLayout layout, const IntegerTensors& tensors);

  void read(std::int64_t begin, std::int64_t count, std::byte* out) const override;
  std::shared_ptr<const std::vector<std::int32_t>> column_order() const override;
  std::span<const TensorInfo> parts() const override { return parts_; }

 private:
  struct Columns {
    std::shared_ptr<const std::vector<std::int32_t>> order;  // null: in order
    std::vector<std::int32_t> group_of_block;                // of 32 columns
  };
  const Columns& columns() const;
  Columns find_columns() const;
  std::uint32_t code_word(const TensorInfo& tensor, std::int64_t idx) const;
  void unpack_rows(std::int64_t begin, std::int64_t count, std::uint8_t* codes) const;
  void read_scales(std::int64_t row, std::vector<std::uint16_t>& out) const;
  int zero(std::int64_t row, std::int64_t group) const;
  void write_row(std::int64_t row,
                 const std::uint8_t* codes,
                 const std::vector<std::uint16_t>& scales,
                 std::byte* out) const;

  IntegerLayout layout_;
  std::vector<TensorInfo> parts_;
  IntegerTensors tensors_;  // in parts_
  mutable std::once_flag found_columns_;
  mutable Columns columns_;
};

}  // namespace graft::formats
