#include "graft/ops/cuda/runtime/measure.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <cuda_runtime.h>

#include "graft/base/error.h"
#include "graft/base/text/units.h"
#include "graft/kernels/cuda/linear/gemm_cublaslt.h"
#include "graft/kernels/cuda/linear/linear.h"
#include "graft/kernels/cuda/measure.h"
#include "graft/ops/cuda/runtime/runtime.h"

namespace graft::ops::cuda {
namespace {

using kernels::cuda::Half;

constexpr std::size_t kMaxReadBytes = std::size_t{1} << 30U;
constexpr std::size_t kCopyBytes = std::size_t{128} << 20U;
constexpr int kGraphNodes = 1000;
// A round repeats the work for about this long, far more than an event costs (some microseconds).
constexpr double kRoundSeconds = 0.02;
// Until the last round: work that takes longer than a round is repeated less often.
constexpr double kMaxSeconds = 0.3;
constexpr std::size_t kMinRounds = 3;
constexpr std::size_t kMaxRounds = 9;

struct FreeDevice {
  void operator()(std::byte* data) const { cudaFree(data); }
};
struct FreePinned {
  void operator()(std::byte* data) const { cudaFreeHost(data); }
};
struct DestroyGraph {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using DeviceBytes = std::unique_ptr<std::byte, FreeDevice>;
using PinnedBytes = std::unique_ptr<std::byte, FreePinned>;
using GraphExec = std::unique_ptr<CUgraphExec_st, DestroyGraph>;

DeviceBytes allocate(std::int32_t index, std::size_t bytes) {
  DeviceBytes data(CudaMemory().allocate(index, bytes));
  if (data == nullptr) fail("measuring needs ", bytes_text(bytes), " of GPU memory");
  return data;
}

// Values that any kernel may read as F16 or f32.
DeviceBytes allocate_random(std::int32_t index, std::size_t bytes, const CudaStream& stream) {
  DeviceBytes data = allocate(index, bytes);
  kernels::cuda::fill_random_f16(reinterpret_cast<Half*>(data.get()),
                                 static_cast<std::int64_t>(bytes / sizeof(Half)), stream.get());
  return data;
}

// Seconds of `count` calls of `work`, without the time to enqueue the first one.
double seconds_of(const CudaStream& stream, int count, const std::function<void()>& work) {
  CudaEvent begin(EventKind::Timed);
  CudaEvent end(EventKind::Timed);
  begin.record(stream);
  for (int i = 0; i < count; ++i)
    work();
  end.record(stream);
  return CudaEvent::seconds_between(begin, end);
}

// Seconds of one call of `work`: the median of several rounds after a warm-up.
double median_seconds(const CudaStream& stream, const std::function<void()>& work) {
  work();
  const double once = std::max(seconds_of(stream, 1, work), 1e-6);
  const int count = std::max(1, static_cast<int>(kRoundSeconds / once));
  // The first round brings an idle GPU to its clock rate.
  seconds_of(stream, count, work);
  std::vector<double> rounds;
  double total = 0;
  while (rounds.size() < kMinRounds || (rounds.size() < kMaxRounds && total < kMaxSeconds)) {
    const double seconds = seconds_of(stream, count, work);
    total += seconds;
    rounds.push_back(seconds / count);
  }
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::ranges::nth_element(rounds, middle);
  return *middle;
}

double measure_read(std::int32_t index, const CudaStream& stream, std::size_t free_bytes) {
  int l2_bytes = 0;
  check_cuda(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, physical_gpu(index)),
             "querying the size of the L2 cache");
  const std::size_t bytes = std::min(kMaxReadBytes, free_bytes / 2) / 256 * 256;
  const std::size_t min_bytes = 4 * static_cast<std::size_t>(l2_bytes);
  if (bytes < min_bytes) {
    fail("measuring needs ", bytes_text(2 * min_bytes), " of free GPU memory, there are ",
         bytes_text(free_bytes));
  }
  const DeviceBytes data = allocate_random(index, bytes, stream);
  const DeviceBytes result = allocate(index, sizeof(std::uint32_t));
  const double seconds = median_seconds(stream, [&] {
    kernels::cuda::xor_words(data.get(), bytes, reinterpret_cast<std::uint32_t*>(result.get()),
                             stream.get());
  });
  return static_cast<double>(bytes) / seconds;
}

// A product of square matrices of `size` as prefill computes it: on tensor cores, by cuBLASLt where
// it is installed. GPUs and builds without gemm_f16 compute in f32.
double measure_flops(std::int32_t index, const CudaStream& stream, std::int64_t size) {
  const auto count = static_cast<std::size_t>(size * size);
  const bool is_f16 = kernels::cuda::has_gemm_f16();
  const DeviceBytes weight = allocate_random(index, count * sizeof(Half), stream);
  const DeviceBytes y = allocate(index, count * sizeof(float));
  const std::size_t x_bytes =
      is_f16 ? kernels::cuda::half_rows_bytes(size, size) : count * sizeof(float);
  const DeviceBytes x = allocate_random(index, x_bytes, stream);
  const kernels::cuda::Rows out = {reinterpret_cast<float*>(y.get()), size};
  const DeviceBytes workspace = allocate(index, kernels::cuda::kCublasLtWorkspace);
  const kernels::cuda::F16Rows halves = kernels::cuda::half_rows_at(x.get(), size, size);
  const kernels::cuda::DenseGemm dense = {.dtype = DType::F16,
                                          .weight = weight.get(),
                                          .x = halves.values,
                                          .x_stride = size,
                                          .y = out,
                                          .rows = size,
                                          .out = size,
                                          .in = size};
  const kernels::cuda::LinearBatch product = kernels::cuda::one_linear(
      {.dtype = DType::F16, .data = weight.get(), .rows = size, .cols = size}, nullptr,
      {reinterpret_cast<const float*>(x.get()), size}, out, size);
  const double seconds = median_seconds(stream, [&] {
    if (!is_f16) return kernels::cuda::gemm(product, stream.get());
    if (!kernels::cuda::gemm_cublaslt(dense, workspace.get(), kernels::cuda::kCublasLtWorkspace,
                                      stream.get()))
      kernels::cuda::gemm_f16(product, halves, stream.get());
  });
  return 2.0 * static_cast<double>(size * size * size) / seconds;
}

// A chain: every kernel depends on the one before.
GraphExec capture_empty_kernels(const CudaStream& stream) {
  check_cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed),
             "starting graph capture");
  for (int i = 0; i < kGraphNodes; ++i)
    kernels::cuda::launch_empty(stream.get());
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(stream.get(), &graph), "ending graph capture");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(error, "instantiating a graph");
  return GraphExec(executable);
}

double measure_launch(const CudaStream& stream) {
  const GraphExec graph = capture_empty_kernels(stream);
  const double seconds = median_seconds(
      stream, [&] { check_cuda(cudaGraphLaunch(graph.get(), stream.get()), "launching a graph"); });
  return seconds / kGraphNodes;
}

void measure_pcie(std::int32_t index, const CudaStream& stream, GpuMeasurement& result) {
  const DeviceBytes device = allocate(index, kCopyBytes);
  const PinnedBytes host(CudaMemory().allocate_staging(index, kCopyBytes));
  if (host == nullptr) fail("measuring needs ", bytes_text(kCopyBytes), " of pinned host memory");
  const auto rate = [&](std::byte* to, const std::byte* from, cudaMemcpyKind kind) {
    const double seconds = median_seconds(stream, [&] {
      check_cuda(cudaMemcpyAsync(to, from, kCopyBytes, kind, stream.get()), "copying");
    });
    return static_cast<double>(kCopyBytes) / seconds;
  };
  result.pcie_bytes_per_s = rate(device.get(), host.get(), cudaMemcpyHostToDevice);
  result.pcie_back_bytes_per_s = rate(host.get(), device.get(), cudaMemcpyDeviceToHost);
}

}  // namespace

GpuMeasurement measure(std::int32_t index) {
  return measure_within(index, CudaMemory().available(index));
}

GpuMeasurement measure_within(std::int32_t index, std::size_t free_bytes) {
  constexpr std::size_t kFreeForLargeProduct = std::size_t{2} << 30U;
  const CudaStream stream(index);
  GpuMeasurement result;
  result.read_bytes_per_s = measure_read(index, stream, free_bytes);
  // 8192: 0.6 GiB of matrices; 4096: 0.2 GiB, and a few percent slower on fast GPUs.
  result.flops = measure_flops(index, stream, free_bytes >= kFreeForLargeProduct ? 8192 : 4096);
  result.launch_seconds = measure_launch(stream);
  measure_pcie(index, stream, result);
  return result;
}

}  // namespace graft::ops::cuda
