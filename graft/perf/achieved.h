// What kernels reach of the limits of a device, by kind of work. GPU: fitted on three models on one
// H200; docs/performance.md compares predictions and measurements, of other models too. CPU: for
// weights whose rate `graft machine` has not measured.

#pragma once

#include <algorithm>

#include "graft/perf/work.h"

namespace graft::perf {

// Of the read bandwidth, for weights and for the KV cache.
inline constexpr double kGpuReadShare = 0.58;
inline constexpr double kCpuReadShare = 0.65;

// Of the peak, for QK^T and PV.
inline constexpr double kGpuAttentionShare = 0.25;
inline constexpr double kGpuSparseShare = 0.04;  // over selected entries

// An operation in a chain of kernels takes the time of an empty kernel, and this time until its
// data has arrived from memory.
inline constexpr double kGpuLatencySeconds = 2e-6;

// One step of a recurrence, of all sequences and heads.
inline constexpr double kGpuStepSeconds = 2.4e-6;

// int8 products of quantized weights, relative to the f32 peak: 2.5 with AVX-512 and AVX2.
inline constexpr double kCpuInt8Factor = 2.5;

// Of the peak, for products with weights: few rows reach `min`; many approach `max`, half of it
// with `half_rows` rows.
struct ProductShare {
  double min = 0;
  double max = 0;
  double half_rows = 0;

  constexpr double of(double rows) const { return std::max(min, max * rows / (rows + half_rows)); }
};
inline constexpr ProductShare kGpuDenseShare = {.min = 0.265, .max = 0.62, .half_rows = 250};
inline constexpr ProductShare kGpuExpertShare = {.min = 0.07, .max = 0.18, .half_rows = 70};

constexpr double gpu_product_share(const Work& work) {
  return (work.is_grouped ? kGpuExpertShare : kGpuDenseShare).of(work.rows);
}

// Dependent kernels of a module in decode. Attention: the cache, KV splits, their sum. Experts:
// gate and up, down, their sum.
constexpr int num_kernels(ops::Role role) {
  return role == ops::Role::Attention || role == ops::Role::Experts ? 3 : 1;
}

}  // namespace graft::perf
