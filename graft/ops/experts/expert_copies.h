// How the experts of a layer cross from host memory to a GPU: in groups of consecutive experts,
// each a few copies as long as the memory is contiguous.
//
// A group in device memory; the place of an expert that is not copied stays unused:
//
//     gate_proj of experts first .. end - 1 | up_proj of the same | down_proj of the same

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graft/ops/experts/expert_store.h"
#include "graft/tensor/dtype.h"

namespace graft::ops {

// `bytes` bytes from host memory to an offset in the group.
struct HostCopy {
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  std::size_t to = 0;
};

struct ExpertRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // exclusive

  std::int64_t size() const { return end - begin; }
  bool operator==(const ExpertRange&) const = default;
};

class ExpertCopies {
 public:
  ExpertCopies() = default;
  // A group has as many experts as fit into max_group_bytes, at least one. Requires is_uniform().
  ExpertCopies(const ExpertStore& store, std::size_t max_group_bytes);

  // Whether every projection has one type and shape for all experts.
  static bool is_uniform(const ExpertStore& store);

  std::int64_t num_experts() const { return num_experts_; }
  std::int64_t num_groups() const;
  ExpertRange experts_of(std::int64_t group) const;
  std::size_t group_bytes() const;  // of a full group
  std::size_t expert_bytes() const;
  // Offset of a projection (0: gate, 1: up, 2: down) in a group of `num_experts` experts.
  std::size_t offset_of(std::size_t projection, std::int64_t num_experts) const;
  std::size_t matrix_bytes(std::size_t projection) const { return matrix_bytes_[projection]; }

  // The copies of a group's experts for which is_used[expert] is not 0.
  std::vector<HostCopy> copies_of(std::int64_t group, std::span<const std::uint8_t> is_used) const;
  // All host memory that copies_of() may return.
  std::vector<std::span<const std::byte>> host_memory() const;

 private:
  // Rows [0, rows) of a matrix in host memory; `to` is the offset in the matrix.
  using Pieces = std::vector<HostCopy>;

  void add_projection(const ExpertProjection& projection);

  std::int64_t num_experts_ = 0;
  std::int64_t experts_per_group_ = 0;
  std::vector<std::size_t> matrix_bytes_;    // by projection
  std::vector<std::vector<Pieces>> pieces_;  // by projection and expert
};

}  // namespace graft::ops
