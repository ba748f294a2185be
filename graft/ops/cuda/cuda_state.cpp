#include "graft/ops/cuda/cuda_state.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <list>
#include <utility>

#include "graft/base/check.h"
#include "graft/kernels/cuda/elementwise.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops {
namespace {

// Most models and batches never need more, so that recordings stay of use.
constexpr std::size_t kLeastNumbersBytes = std::size_t{1} << 20U;

}  // namespace

CudaState::CudaState(Device device)
    : DeviceState(device), stream_(device.index), aside_(device.index) {}

void CudaState::begin_pass(const Batch& batch) {
  use_gpu(device().index);
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
  const auto num_kept = static_cast<std::int64_t>(batch.sequences.size()) - batch.num_padding;
  for (std::int64_t s = 0; s < num_kept; ++s) {
    const SequenceSlice& sequence = batch.sequences[static_cast<std::size_t>(s)];
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
    const std::size_t size = std::max(2 * bytes, kLeastNumbersBytes);
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
  GRAFT_CHECK(!is_recording(), "a cache that was not there before");
  const Place place = append_slots(*batch_, block_tokens);
  upload_numbers(place);
  slots_.push_back({.block_tokens = block_tokens, .place = place});
  ++memory_version_;
  return at(place);
}

void CudaState::add(TensorView x, TensorView y, Pass& /*pass*/) {
  use_gpu(device().index);
  cuda::add(rows_of(x), rows_of(y), rows_of(x), x.rows(), x.cols(), stream());
}

void CudaState::gather(TensorView x,
                       std::span<const std::int32_t> rows,
                       TensorView picked,
                       Pass& /*pass*/) {
  use_gpu(device().index);
  const Place ids = append(rows);
  upload_numbers(ids);
  cuda::gather_rows(rows_of(x), at(ids), rows_of(picked), picked.rows(), x.cols(), stream());
}

void CudaState::copy_in(TensorView from, TensorView to) {
  use_gpu(device().index);
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

// A CUDA graph and what its host nodes call.
class CudaState::Graph final : public Recording {
 public:
  ~Graph() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }

  void make_executable(cudaGraph_t graph) {
    const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(error, "making a graph ready");
  }
  cudaGraphExec_t executable() const { return executable_; }

  // Calls have an address that stays.
  struct Call {
    std::function<void()> work;
    Graph* graph = nullptr;
  };
  Call& add_call(std::function<void()> work) {
    calls_.push_back({.work = std::move(work), .graph = this});
    return calls_.back();
  }
  bool has_calls() const { return !calls_.empty(); }

  // On a thread of the driver's, which must see no exception.
  static void run(void* any) noexcept {
    const auto& call = *static_cast<const Call*>(any);
    if (call.graph->error_) return;
    try {
      call.work();
    } catch (...) {
      call.graph->error_ = std::current_exception();
    }
  }
  void rethrow() {
    if (const std::exception_ptr error = std::exchange(error_, nullptr))
      std::rethrow_exception(error);
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
  std::list<Call> calls_;
  std::exception_ptr error_;  // the first of a replay
};

std::unique_ptr<Recording> CudaState::record(const std::function<void()>& work) {
  use_gpu(device().index);
  auto graph = std::make_unique<Graph>();
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

void CudaState::replay(Recording& recording) {
  use_gpu(device().index);
  auto& graph = static_cast<Graph&>(recording);
  check_cuda(cudaGraphLaunch(graph.executable(), stream()), "starting a graph");
  // Whoever waits must leave its core to the calls.
  (graph.has_calls() ? slept_ : copied_out_).record(stream_);
  (graph.has_calls() ? slept_ : copied_out_).wait();
  graph.rethrow();
}

void CudaState::call_processor(std::function<void()> work) {
  GRAFT_CHECK(is_recording(), "a call of the processor outside of a recording");
  Graph::Call& call = recording_->add_call(std::move(work));
  forked_.record(stream_);
  aside_.wait_for(forked_);
  check_cuda(cudaLaunchHostFunc(aside_.get(), Graph::run, &call), "calling the processor");
}

void CudaState::join_processor() {
  joined_.record(aside_);
  stream_.wait_for(joined_);
}

}  // namespace graft::ops
