#include "graft/ops/cuda/cuda_state.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/pause.h"
#include "graft/kernels/cuda/elementwise.h"
#include "graft/kernels/cuda/sampling.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {
namespace {

// Most models and batches never need more, so that recordings stay of use.
constexpr std::size_t kMinNumbersBytes = std::size_t{1} << 20U;
// A question to the driver takes about as long as so many looks.
constexpr std::uint64_t kLooksBetweenQuestions = 10'000;

}  // namespace

CudaState::CudaState(Device device) : DeviceState(device), stream_(device.index) {}

void CudaState::begin_pass(const Batch& batch) {
  use_gpu(device().index);
  forget_bytes();
  batch_ = &batch;
  values_.clear();
  token_ids_ = append(batch.token_ids);
  positions_ = append(batch.positions);
  prompts_ = singles_ = {};
  table_stride_ = 0;
  for (const SequenceSlice& sequence : batch.sequences) {
    (sequence.num_tokens > 1 ? prompts_ : singles_).sequences.push_back(&sequence);
    table_stride_ = std::max(table_stride_, static_cast<std::int64_t>(sequence.block_table.size()));
  }
  append_group(batch, prompts_);
  append_group(batch, singles_);
  for (Slots& slots : slots_)
    slots.place = append_slots(batch, slots.block_tokens);
  upload_numbers(0);
}

CudaState::Place CudaState::append(std::span<const std::int32_t> values) {
  const Place place = values_.size();
  values_.insert(values_.end(), values.begin(), values.end());
  return place;
}

void CudaState::append_group(const Batch& batch, Group& group) {
  std::vector<std::int32_t> first_rows;
  std::vector<std::int32_t> num_tokens;
  std::vector<std::int32_t> context_lens;
  if (!group.sequences.empty()) group.first_row = group.sequences.front()->first_row;
  for (const SequenceSlice* sequence : group.sequences) {
    const std::int64_t row = sequence->first_row - group.first_row;
    first_rows.push_back(static_cast<std::int32_t>(row));
    num_tokens.push_back(static_cast<std::int32_t>(sequence->num_tokens));
    context_lens.push_back(static_cast<std::int32_t>(sequence->context_len));
    group.num_rows = row + sequence->num_tokens;
    group.max_tokens = std::max(group.max_tokens, sequence->num_tokens);
    group.max_context = std::max({group.max_context, sequence->context_len, batch.max_context});
  }
  group.first_rows = append(first_rows);
  group.num_tokens = append(num_tokens);
  group.context_lens = append(context_lens);
  group.block_tables = values_.size();
  for (const SequenceSlice* sequence : group.sequences) {
    const Place table = append(sequence->block_table);
    values_.resize(table + static_cast<std::size_t>(table_stride_));
  }
}

CudaState::Place CudaState::append_slots(const Batch& batch, std::int64_t block_tokens) {
  const Place place = values_.size();
  values_.resize(place + batch.token_ids.size(), -1);
  for (const SequenceSlice& sequence : batch.kept_sequences()) {
    for (std::int64_t i = 0; i < sequence.num_tokens; ++i) {
      const std::int64_t position = sequence.context_len - sequence.num_tokens + i;
      const auto block = sequence.block_table[static_cast<std::size_t>(position / block_tokens)];
      values_[place + static_cast<std::size_t>(sequence.first_row + i)] =
          static_cast<std::int32_t>(block * block_tokens + position % block_tokens);
    }
  }
  return place;
}

void CudaState::upload_numbers(Place first) {
  const std::size_t bytes = values_.size() * sizeof(std::int32_t);
  if (bytes > numbers_.size()) {
    stream_.wait();  // the old ones may still be read
    const std::size_t size = std::max(2 * bytes, kMinNumbersBytes);
    numbers_ = Buffer(size, device());
    numbers_staging_ = Buffer::staging(size, device());
    ++memory_version_;
    first = 0;
  }
  uploaded_.wait();
  const std::size_t begin = first * sizeof(std::int32_t);
  std::memcpy(numbers_staging_.data() + begin, values_.data() + first, bytes - begin);
  check_cuda(cudaMemcpyAsync(numbers_.data() + begin, numbers_staging_.data() + begin,
                             bytes - begin, cudaMemcpyHostToDevice, stream_.get()),
             "copying to the GPU");
  uploaded_.record(stream_);
}

std::array<CudaState::Sequences, 2> CudaState::sequences(std::int64_t block_tokens) const {
  const auto of = [&](const Group& group) {
    return Sequences{.batch = {.first_rows = at(group.first_rows),
                               .num_tokens = at(group.num_tokens),
                               .context_lens = at(group.context_lens),
                               .block_tables = at(group.block_tables),
                               .table_stride = table_stride_,
                               .block_tokens = block_tokens,
                               .num_sequences = static_cast<std::int64_t>(group.sequences.size()),
                               .num_rows = group.num_rows,
                               .max_tokens = group.max_tokens,
                               .max_context = group.max_context},
                     .first_row = group.first_row};
  };
  return {of(prompts_), of(singles_)};
}

const std::int32_t* CudaState::slots(std::int64_t block_tokens) {
  for (const Slots& slots : slots_) {
    if (slots.block_tokens == block_tokens) return at(slots.place);
  }
  // A cache not seen before. From the next pass on its slots go up with everything else.
  GRAFT_CHECK(!is_capturing(), "a cache that was not there before");
  const Place place = append_slots(*batch_, block_tokens);
  upload_numbers(place);
  slots_.push_back({.block_tokens = block_tokens, .place = place});
  ++memory_version_;
  return at(place);
}

const kernels::cuda::Q8Rows* CudaState::bytes_of(TensorView x) const {
  const TensorView& of = rounded_.of;
  const bool is_same =
      of.data != nullptr && of.data == x.data && of.rows() == x.rows() && of.cols() == x.cols();
  return is_same ? &rounded_.bytes : nullptr;
}

void CudaState::add(TensorView x, TensorView y, Pass& /*pass*/) {
  use_gpu(device().index);
  forget_bytes();
  kernels::cuda::add(rows_of(x), rows_of(y), rows_of(x), x.rows(), x.cols(), stream());
}

void CudaState::gather(TensorView x,
                       std::span<const std::int32_t> rows,
                       TensorView picked,
                       Pass& /*pass*/) {
  use_gpu(device().index);
  forget_bytes();
  const Place ids = append(rows);
  upload_numbers(ids);
  kernels::cuda::gather_rows(rows_of(x), at(ids), rows_of(picked), picked.rows(), x.cols(),
                             stream());
}

std::int64_t CudaState::max_top_k() const {
  return kernels::cuda::kMaxTopK;
}

void CudaState::find_top_k(TensorView logits, TensorView tokens, TensorView values) {
  use_gpu(device().index);
  kernels::cuda::top_k_logits(rows_of(logits), logits.rows(), logits.cols(), tokens.cols(),
                              {.tokens = tokens.as<std::int32_t>(), .logits = values.f32()},
                              stream());
}

void CudaState::copy_in(TensorView from, TensorView to) {
  use_gpu(device().index);
  forget_bytes();
  check_cuda(cudaMemcpyAsync(to.data, from.data, from.bytes(), cudaMemcpyHostToDevice, stream()),
             "copying to the GPU");
}

void CudaState::start_copy_out(TensorView from, TensorView to) {
  use_gpu(device().index);
  check_cuda(cudaMemcpyAsync(to.data, from.data, from.bytes(), cudaMemcpyDeviceToHost, stream()),
             "copying from the GPU");
  copied_out_.record(stream_);
}

void CudaState::finish_copies_out() {
  copied_out_.wait();
}

// A CUDA graph, and what the processor does when the GPU comes by.
class CudaState::Graph final : public CapturedGraph {
 public:
  struct Call {
    std::function<void()> work;
    kernels::cuda::HostSignal meeting;
  };

  explicit Graph(Device device) : flags_(Buffer::staging(2 * kMaxCalls * kFlagBytes, device)) {
    std::memset(flags_.data(), 0, flags_.size());
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }

  void make_executable(cudaGraph_t graph) {
    const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(error, "making a graph ready");
  }
  cudaGraphExec_t executable() const { return executable_; }

  const Call& add_call(const std::function<void()>& work) {
    GRAFT_CHECK(calls_.size() < kMaxCalls, "more than ", kMaxCalls, " calls of the processor");
    const std::size_t place = 2 * calls_.size();
    calls_.push_back({.work = work, .meeting = {.ready = flag(place), .done = flag(place + 1)}});
    return calls_.back();
  }
  const std::vector<Call>& calls() const { return calls_; }

 private:
  // A line of the cache each, and the line that processors fetch along with it.
  static constexpr std::size_t kFlagBytes = 128;
  static constexpr std::size_t kMaxCalls = 1024;

  std::uint32_t* flag(std::size_t place) const {
    return reinterpret_cast<std::uint32_t*>(flags_.data() + place * kFlagBytes);
  }

  cudaGraphExec_t executable_ = nullptr;
  std::vector<Call> calls_;
  Buffer flags_;
};

std::unique_ptr<CapturedGraph> CudaState::record(const std::function<void()>& work) {
  use_gpu(device().index);
  auto graph = std::make_unique<Graph>(device());
  check_cuda(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed),
             "beginning a recording");
  recording_ = graph.get();
  std::exception_ptr error;
  try {
    work();
  } catch (...) {
    error = std::current_exception();
  }
  recording_ = nullptr;
  // Capture ends in any case: the stream would be of no use otherwise.
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream(), &captured);
  if (error) {
    if (captured != nullptr) cudaGraphDestroy(captured);
    cudaGetLastError();
    std::rethrow_exception(error);
  }
  check_cuda(ended, "ending a recording");
  graph->make_executable(captured);
  return graph;
}

void CudaState::replay(CapturedGraph& recording) {
  use_gpu(device().index);
  auto& graph = static_cast<Graph&>(recording);
  check_cuda(cudaGraphLaunch(graph.executable(), stream()), "starting a graph");
  // After an error the GPU is still let through to the end of its graph.
  std::exception_ptr error;
  for (const Graph::Call& call : graph.calls()) {
    const std::uint32_t arrived = wait_for_arrival(call.meeting);
    try {
      if (!error) call.work();
    } catch (...) {
      error = std::current_exception();
    }
    std::atomic_ref(*call.meeting.done).store(arrived, std::memory_order_release);
  }
  copied_out_.record(stream_);
  copied_out_.wait();
  if (error) std::rethrow_exception(error);
}

std::uint32_t CudaState::wait_for_arrival(const kernels::cuda::HostSignal& meeting) const {
  const std::uint32_t last = *meeting.done;  // nobody else writes it
  const std::atomic_ref ready(*meeting.ready);
  for (std::uint64_t looks = 1;; ++looks) {
    if (const std::uint32_t now = ready.load(std::memory_order_acquire); now != last) return now;
    pause_briefly();
    if (looks % kLooksBetweenQuestions != 0) continue;
    // A GPU that has failed never arrives.
    const cudaError_t state = cudaStreamQuery(stream());
    if (state == cudaErrorNotReady || ready.load(std::memory_order_acquire) != last) continue;
    check_cuda(state, "running a graph");
    fail("CUDA: a graph ended before the processor was called");
  }
}

void CudaState::host_call(const std::function<void()>& work) {
  GRAFT_CHECK(is_capturing(), "a call of the processor outside of a recording");
  awaited_ = recording_->add_call(work).meeting;
  kernels::cuda::arrive(awaited_, stream());
}

void CudaState::join_host_call() {
  kernels::cuda::await(awaited_, stream());
}

}  // namespace graft::ops::cuda
