#include "graft/ops/experts/expert_copies.h"

#include <algorithm>

#include "graft/base/check.h"
#include "graft/packing/panel_layout.h"

namespace graft::ops {
namespace {

// The alignment that GPU kernels need for vector loads.
constexpr std::size_t kVectorAlignment = 16;
constexpr std::size_t kProjectionAlignment = 256;

std::size_t round_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

bool is_uniform(const ExpertProjection& projection) {
  const auto equal = [](const auto& a, const auto& b) {
    return a.dtype == b.dtype && a.shape == b.shape && (a.scale == nullptr) == (b.scale == nullptr);
  };
  if (!projection.packed.empty()) {
    const packing::PackedMatrix& first = projection.packed.front();
    return std::ranges::all_of(projection.packed, [&](const packing::PackedMatrix& matrix) {
      return matrix.dtype() == first.dtype() && matrix.rows() == first.rows() &&
             matrix.cols() == first.cols();
    });
  }
  return !projection.stored.empty() &&
         std::ranges::all_of(projection.stored, [&](const Weight& weight) {
           return equal(weight, projection.stored.front());
         });
}

// Appends, or extends the last copy when both sides continue it.
void append(const HostCopy& copy, std::vector<HostCopy>& copies) {
  if (!copies.empty()) {
    HostCopy& last = copies.back();
    if (last.from + last.bytes == copy.from && last.to + last.bytes == copy.to) {
      last.bytes += copy.bytes;
      return;
    }
  }
  copies.push_back(copy);
}

}  // namespace

bool ExpertCopies::is_uniform(const ExpertStore& store) {
  return ops::is_uniform(store.gate_proj) && ops::is_uniform(store.up_proj) &&
         ops::is_uniform(store.down_proj);
}

ExpertCopies::ExpertCopies(const ExpertStore& store, std::size_t max_group_bytes) {
  add_projection(store.gate_proj);
  add_projection(store.up_proj);
  add_projection(store.down_proj);
  num_experts_ = static_cast<std::int64_t>(pieces_.front().size());
  experts_per_group_ = std::clamp(static_cast<std::int64_t>(max_group_bytes / expert_bytes()),
                                  std::int64_t{1}, num_experts_);
  // Groups of nearly equal size: a small last one would be computed at a low rate.
  const std::int64_t groups = num_groups();
  experts_per_group_ = (num_experts_ + groups - 1) / groups;
}

void ExpertCopies::add_projection(const ExpertProjection& projection) {
  std::vector<Pieces>& experts = pieces_.emplace_back();
  for (const packing::PackedMatrix& matrix : projection.packed) {
    Pieces& pieces = experts.emplace_back();
    for (const packing::PackedMatrix::Slice& slice : matrix.slices()) {
      const auto bytes = static_cast<std::size_t>(
          packing::packed_bytes(matrix.dtype(), slice.end - slice.begin, matrix.cols()));
      const auto to = static_cast<std::size_t>(
          packing::packed_bytes(matrix.dtype(), slice.begin, matrix.cols()));
      append({.from = slice.panels, .bytes = bytes, .to = to}, pieces);
    }
  }
  for (const Weight& weight : projection.stored) {
    const std::size_t bytes = weight.row_bytes() * static_cast<std::size_t>(weight.rows());
    experts.push_back({{.from = weight.data, .bytes = bytes, .to = 0}});
  }
  std::size_t bytes = 0;
  for (const HostCopy& piece : experts.front())
    bytes += piece.bytes;
  matrix_bytes_.push_back(round_up(bytes, kVectorAlignment));
}

std::int64_t ExpertCopies::num_groups() const {
  return (num_experts_ + experts_per_group_ - 1) / experts_per_group_;
}

ExpertRange ExpertCopies::experts_of(std::int64_t group) const {
  const std::int64_t begin = group * experts_per_group_;
  return {.begin = begin, .end = std::min(begin + experts_per_group_, num_experts_)};
}

std::size_t ExpertCopies::expert_bytes() const {
  std::size_t bytes = 0;
  for (const std::size_t matrix : matrix_bytes_)
    bytes += matrix;
  return bytes;
}

std::size_t ExpertCopies::offset_of(std::size_t projection, std::int64_t num_experts) const {
  std::size_t offset = 0;
  for (std::size_t i = 0; i < projection; ++i) {
    offset +=
        round_up(static_cast<std::size_t>(num_experts) * matrix_bytes_[i], kProjectionAlignment);
  }
  return offset;
}

std::size_t ExpertCopies::group_bytes() const {
  return offset_of(matrix_bytes_.size(), experts_per_group_);
}

std::vector<HostCopy> ExpertCopies::copies_of(std::int64_t group,
                                              std::span<const std::uint8_t> is_used) const {
  const ExpertRange experts = experts_of(group);
  std::vector<HostCopy> copies;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const std::size_t base = offset_of(p, experts.size());
    for (std::int64_t e = experts.begin; e < experts.end; ++e) {
      if (is_used[static_cast<std::size_t>(e)] == 0) continue;
      const std::size_t to = base + static_cast<std::size_t>(e - experts.begin) * matrix_bytes_[p];
      for (const HostCopy& piece : pieces_[p][static_cast<std::size_t>(e)])
        append({.from = piece.from, .bytes = piece.bytes, .to = to + piece.to}, copies);
    }
  }
  return copies;
}

std::vector<std::span<const std::byte>> ExpertCopies::host_memory() const {
  std::vector<std::span<const std::byte>> memory;
  for (const std::vector<Pieces>& experts : pieces_) {
    for (const Pieces& pieces : experts) {
      for (const HostCopy& piece : pieces)
        memory.emplace_back(piece.from, piece.bytes);
    }
  }
  return memory;
}

}  // namespace graft::ops
