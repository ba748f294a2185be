#include "graft/ops/cuda/runtime/cuda_graphs.h"

#include <atomic>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/pause.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {
namespace {

// Polls of the flag between two error queries: they take about as long as one query.
constexpr std::uint64_t kPollsPerQuery = 10'000;

void run_unless_failed(const std::function<void()>& work, std::exception_ptr& error) {
  if (error) return;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
}

}  // namespace

// A CUDA graph with the host calls inside it.
class CudaGraph final : public CapturedGraph {
 public:
  struct Call {
    std::function<void()> work;
    std::function<void()> later;  // null: nothing
    kernels::cuda::HostSignal signal;
  };

  explicit CudaGraph(Device device) : flags_(Buffer::staging(2 * kMaxCalls * kFlagBytes, device)) {
    std::memset(flags_.data(), 0, flags_.size());
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }

  void make_executable(cudaGraph_t graph) {
    const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(error, "instantiating a graph");
  }
  cudaGraphExec_t executable() const { return executable_; }

  const Call& add_call(const std::function<void()>& work, const std::function<void()>& later) {
    GRAFT_CHECK(calls_.size() < kMaxCalls, "more than ", kMaxCalls, " host calls in a graph");
    const std::size_t place = 2 * calls_.size();
    calls_.push_back(
        {.work = work, .later = later, .signal = {.ready = flag(place), .done = flag(place + 1)}});
    return calls_.back();
  }
  const std::vector<Call>& calls() const { return calls_; }

 private:
  // One cache line per flag, plus the adjacent line that CPUs prefetch with it.
  static constexpr std::size_t kFlagBytes = 128;
  static constexpr std::size_t kMaxCalls = 1024;

  std::uint32_t* flag(std::size_t place) const {
    return reinterpret_cast<std::uint32_t*>(flags_.data() + place * kFlagBytes);
  }

  cudaGraphExec_t executable_ = nullptr;
  std::vector<Call> calls_;
  Buffer flags_;
};

std::unique_ptr<CapturedGraph> CudaGraphCapture::capture(const std::function<void()>& work) {
  use_gpu(device_.index);
  auto graph = std::make_unique<CudaGraph>(device_);
  check_cuda(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeRelaxed),
             "starting graph capture");
  capturing_ = graph.get();
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  capturing_ = nullptr;
  // Ends capture even after an error: the stream is unusable otherwise.
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_.get(), &captured);
  if (error) {
    if (captured != nullptr) cudaGraphDestroy(captured);
    cudaGetLastError();
    std::rethrow_exception(error);
  }
  check_cuda(ended, "ending graph capture");
  graph->make_executable(captured);
  return graph;
}

void CudaGraphCapture::replay(CapturedGraph& captured) {
  use_gpu(device_.index);
  auto& graph = static_cast<CudaGraph&>(captured);
  check_cuda(cudaGraphLaunch(graph.executable(), stream_.get()), "launching a graph");
  // After an error the remaining host calls are signalled, so that the graph runs to its end.
  std::exception_ptr error;
  for (const CudaGraph::Call& call : graph.calls()) {
    const std::uint32_t count = wait_for_gpu(call.signal);
    run_unless_failed(call.work, error);
    std::atomic_ref(*call.signal.done).store(count, std::memory_order_release);
    if (call.later) run_unless_failed(call.later, error);
  }
  copied_out_.record(stream_);
  if (!error) return;
  copied_out_.wait();
  std::rethrow_exception(error);
}

std::uint32_t CudaGraphCapture::wait_for_gpu(const kernels::cuda::HostSignal& signal) const {
  const std::uint32_t last = *signal.done;  // written by this thread only
  const std::atomic_ref ready(*signal.ready);
  for (std::uint64_t polls = 1;; ++polls) {
    if (const std::uint32_t now = ready.load(std::memory_order_acquire); now != last) return now;
    cpu_relax();
    if (polls % kPollsPerQuery != 0) continue;
    // A failed GPU never signals.
    const cudaError_t state = cudaStreamQuery(stream_.get());
    if (state == cudaErrorNotReady || ready.load(std::memory_order_acquire) != last) continue;
    check_cuda(state, "running a graph");
    fail("CUDA: the graph finished before its host call");
  }
}

void CudaGraphCapture::host_call(const std::function<void()>& work,
                                 const std::function<void()>& later) {
  GRAFT_CHECK(is_capturing(), "host calls require graph capture");
  awaited_ = capturing_->add_call(work, later).signal;
  kernels::cuda::signal_host(awaited_, stream_.get());
}

void CudaGraphCapture::join_host_call() {
  kernels::cuda::wait_host(awaited_, stream_.get());
}

}  // namespace graft::ops::cuda
