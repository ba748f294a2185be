#include "graft/kernels/cuda/launch.cuh"

#include <array>
#include <atomic>

namespace graft::kernels::cuda {
namespace {

// Its machine code is selected as that of all kernels is.
__global__ void probe_kernel() {
  begin_kernel();
}

constexpr int kMaxDevices = 64;
enum class Answer : std::uint8_t { Unknown, No, Yes };

}  // namespace

bool launches_ahead(Stream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess ||
      status != cudaStreamCaptureStatusActive)
    return false;
  static std::array<std::atomic<Answer>, kMaxDevices> answers = {};
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= kMaxDevices) return false;
  std::atomic<Answer>& answer = answers[static_cast<std::size_t>(device)];
  if (answer.load(std::memory_order_relaxed) == Answer::Unknown)
    answer = is_compiled_for(90, probe_kernel) ? Answer::Yes : Answer::No;
  return answer.load(std::memory_order_relaxed) == Answer::Yes;
}

}  // namespace graft::kernels::cuda
