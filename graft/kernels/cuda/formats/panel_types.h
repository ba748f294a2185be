// The types that GPUs multiply from panels, and a table of functions by type.

#pragma once

#include <array>
#include <cstddef>

#include "graft/quant/blocks.h"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cuda {

template <DType kDType, class Block_>
struct PanelType {
  static constexpr DType kType = kDType;
  using Block = Block_;
};

// Calls function(PanelType) for each type.
template <class Function>
constexpr void for_each_panel_type(const Function& function) {
  const auto call = [&]<class... Types>(Types... types) { (function(types), ...); };
  call(PanelType<DType::Q4_0, quant::BlockQ40>{}, PanelType<DType::Q4_1, quant::BlockQ41>{},
       PanelType<DType::Q5_0, quant::BlockQ50>{}, PanelType<DType::Q5_1, quant::BlockQ51>{},
       PanelType<DType::Q8_0, quant::BlockQ80>{}, PanelType<DType::Q2_K, quant::BlockQ2K>{},
       PanelType<DType::Q3_K, quant::BlockQ3K>{}, PanelType<DType::Q4_K, quant::BlockQ4K>{},
       PanelType<DType::Q5_K, quant::BlockQ5K>{}, PanelType<DType::Q6_K, quant::BlockQ6K>{},
       PanelType<DType::IQ4_NL, quant::BlockIQ4NL>{}, PanelType<DType::IQ4_XS, quant::BlockIQ4XS>{},
       PanelType<DType::MXFP4, quant::BlockMXFP4>{});
}

// Entry of a type: make(PanelType). Default-constructed for other types.
template <class Entry, class Make>
constexpr std::array<Entry, kNumDTypes> panel_type_table(const Make& make) {
  std::array<Entry, kNumDTypes> table{};
  for_each_panel_type([&](auto type) { table[static_cast<std::size_t>(type.kType)] = make(type); });
  return table;
}

}  // namespace graft::kernels::cuda
