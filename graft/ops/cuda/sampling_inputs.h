// The sampling parameters of a pass among its i32 inputs, as the kernel reads them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "graft/kernels/sampling_types.h"
#include "graft/ops/pass.h"

namespace graft::ops::cuda {

inline constexpr std::size_t kInputAlignment = 16;

// Appends the structs at the next aligned place; returns its offset.
template <class Struct>
std::size_t append_structs(const std::vector<Struct>& structs, std::vector<std::int32_t>& values) {
  static_assert(sizeof(Struct) % sizeof(std::int32_t) == 0 && alignof(Struct) <= kInputAlignment);
  values.resize((values.size() * sizeof(std::int32_t) + kInputAlignment - 1) / kInputAlignment *
                (kInputAlignment / sizeof(std::int32_t)));
  const std::size_t offset = values.size();
  values.resize(offset + structs.size() * sizeof(Struct) / sizeof(std::int32_t));
  if (!structs.empty())
    std::memcpy(values.data() + offset, structs.data(), structs.size() * sizeof(Struct));
  return offset;
}

// Offsets in the inputs.
struct SamplingInputs {
  std::size_t rows = 0;   // RowSampling
  std::size_t edits = 0;  // LogitEdit; the masks follow, rows count their words from here
};

inline SamplingInputs append_sampling(const BatchSampling& sampling,
                                      std::vector<std::int32_t>& values) {
  const std::size_t edit_words =
      sampling.edits.size() * sizeof(kernels::LogitEdit) / sizeof(std::uint32_t);
  std::vector<kernels::RowSampling> rows = sampling.rows;
  for (kernels::RowSampling& row : rows) {
    if (row.first_mask >= 0) row.first_mask += static_cast<std::int32_t>(edit_words);
  }
  SamplingInputs inputs;
  inputs.rows = append_structs(rows, values);
  inputs.edits = append_structs(sampling.edits, values);
  append_structs(sampling.masks, values);
  return inputs;
}

}  // namespace graft::ops::cuda
