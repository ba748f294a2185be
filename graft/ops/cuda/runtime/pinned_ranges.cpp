#include "graft/ops/cuda/runtime/pinned_ranges.h"

#include <algorithm>
#include <cstdint>

#include <unistd.h>

#include "graft/kernels/cuda/errors.h"

namespace graft::ops::cuda {
namespace {

struct Pages {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

std::uintptr_t page_size() {
  return static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
}

// The pages of the ranges, merged where they touch.
std::vector<Pages> pages_of(const std::vector<std::span<const std::byte>>& ranges) {
  const std::uintptr_t page = page_size();
  std::vector<Pages> all;
  for (const std::span<const std::byte> range : ranges) {
    const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
    all.push_back(
        {.begin = begin / page * page, .end = (begin + range.size() + page - 1) / page * page});
  }
  std::ranges::sort(all, {}, &Pages::begin);
  std::vector<Pages> merged;
  for (const Pages& pages : all) {
    if (!merged.empty() && pages.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, pages.end);
    } else {
      merged.push_back(pages);
    }
  }
  return merged;
}

void* address(std::uintptr_t page) {
  return reinterpret_cast<void*>(page);  // NOLINT(performance-no-int-to-ptr): pages are rounded
}

// Neighbours may have locked the page that they share with this range.
cudaError_t lock(Pages& pages) {
  const std::uintptr_t page = page_size();
  cudaError_t error = cudaSuccess;
  for (std::uintptr_t skipped = 0; skipped < 4; ++skipped) {
    const Pages inner = {.begin = pages.begin + skipped % 2 * page,
                         .end = pages.end - skipped / 2 * page};
    if (inner.begin >= inner.end) {
      pages.end = pages.begin;  // nothing is left to lock
      return cudaSuccess;
    }
    error =
        cudaHostRegister(address(inner.begin), inner.end - inner.begin, cudaHostRegisterPortable);
    if (error == cudaSuccess) pages = inner;
    if (error != cudaErrorHostMemoryAlreadyRegistered) return error;
    cudaGetLastError();  // clears the error
  }
  return error;
}

}  // namespace

cudaError_t copy_to_gpu(std::byte* to,
                        const std::byte* from,
                        std::size_t bytes,
                        cudaStream_t stream) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream);
  if (error != cudaErrorInvalidValue) return error;
  const auto begin = reinterpret_cast<std::uintptr_t>(from);
  const std::uintptr_t first = begin / page_size();
  const std::uintptr_t last = (begin + bytes - 1) / page_size();
  if (bytes == 0 || first == last) return error;
  cudaGetLastError();  // clears the error
  const std::size_t half = ((first + last + 1) / 2) * page_size() - begin;
  const cudaError_t first_error = copy_to_gpu(to, from, half, stream);
  if (first_error != cudaSuccess) return first_error;
  return copy_to_gpu(to + half, from + half, bytes - half, stream);
}

std::string PinnedRanges::pin(const std::vector<std::span<const std::byte>>& ranges) {
  std::string problem;
  for (Pages pages : pages_of(ranges)) {
    const cudaError_t error = lock(pages);
    if (error == cudaSuccess && pages.begin == pages.end) continue;
    if (error == cudaSuccess) {
      pinned_.push_back(address(pages.begin));
      bytes_ += pages.end - pages.begin;
      continue;
    }
    cudaGetLastError();
    if (problem.empty()) problem = kernels::cuda::error_text(error);
  }
  return problem;
}

void PinnedRanges::unpin() noexcept {
  for (void* begin : pinned_)
    cudaHostUnregister(begin);
  pinned_.clear();
  bytes_ = 0;
}

}  // namespace graft::ops::cuda
