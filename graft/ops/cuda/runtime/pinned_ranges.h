// Page-locks host memory that was allocated elsewhere, so that a GPU copies from it at full PCIe
// speed and asynchronously. Memory that the system refuses to lock is copied pageable: slower, and
// the host waits.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <cuda_runtime.h>

namespace graft::ops::cuda {

// Copies to a GPU from memory that may be locked in parts by several objects. CUDA refuses a copy
// that crosses their borders, which are between pages: such a one is cut in halves.
cudaError_t copy_to_gpu(std::byte* to,
                        const std::byte* from,
                        std::size_t bytes,
                        cudaStream_t stream);

class PinnedRanges {
 public:
  PinnedRanges() = default;
  PinnedRanges(const PinnedRanges&) = delete;
  PinnedRanges& operator=(const PinnedRanges&) = delete;
  ~PinnedRanges() { unpin(); }

  // Locks the pages of these ranges, except pages that another object has locked. Returns the
  // reason when some memory could not be locked, else an empty string.
  std::string pin(const std::vector<std::span<const std::byte>>& ranges);
  // Only when no copy from the memory is in flight.
  void unpin() noexcept;
  std::size_t bytes() const { return bytes_; }

 private:
  std::vector<void*> pinned_;
  std::size_t bytes_ = 0;
};

}  // namespace graft::ops::cuda
