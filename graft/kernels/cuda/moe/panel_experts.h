// The experts of experts.h with weights in panels, the packed layout of the CPU
// (graft/packing/panel_layout.h): copies of experts in host memory need no other form. For the few
// rows of decode: one GEMV per token-expert pair in f32 arithmetic.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/moe/experts.h"

namespace graft::kernels::cuda {

// The matrices of one projection: matrix m begins at panels + m * matrix_bytes.
struct PanelMatrices {
  DType dtype = DType::F32;  // one of packing::kPackedTypes
  const std::byte* panels = nullptr;
  std::size_t matrix_bytes = 0;
};

struct PanelExpertsJob {
  std::int64_t num_matrices = 0;  // per projection
  std::int64_t top_k = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  PanelMatrices gate;  // [intermediate, hidden]
  PanelMatrices up;    // [intermediate, hidden], of the dtype of gate
  PanelMatrices down;  // [hidden, intermediate]
  ExpertEpilogue epilogue = {};
  int panel_pairs = 0;  // of a thread block of panel_experts_mma(); 0: by the size of the GPU
};

// Scratch bytes for `rows` rows.
std::size_t panel_experts_bytes(const PanelExpertsJob& job, std::int64_t rows);
// RoutedRows::expert_ids are numbers of matrices; the results of a token are summed in the order of
// its routing list.
void panel_experts(const PanelExpertsJob& job,
                   const RoutedRows& routed,
                   void* scratch,
                   Stream stream);

// Experts in slots: slot_of[expert] is the matrix of an expert, or negative.

// slots[i] = slot_of[expert_ids[i]]; negative ids stay negative.
void map_to_slots(const std::int32_t* expert_ids,
                  const std::int32_t* slot_of,
                  std::int32_t* slots,
                  std::int64_t count,
                  Stream stream);
// slot_of[expert] = slot, in stream order.
void set_slot(std::int32_t* slot_of, std::int64_t expert, std::int64_t slot, Stream stream);

}  // namespace graft::kernels::cuda
