// A GPU in the passes of a model: its stream, and what operators need of the batch, uploaded once.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "graft/kernels/cuda/attention/attention.h"
#include "graft/kernels/cuda/host_signal.h"
#include "graft/kernels/cuda/linear/linear.h"
#include "graft/kernels/cuda/stream.h"
#include "graft/ops/cuda/runtime.h"
#include "graft/ops/device_state.h"
#include "graft/ops/profiler.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {

class CudaState final : public DeviceState {
 public:
  explicit CudaState(Device device);

  kernels::cuda::Stream stream() const { return stream_.get(); }

  void begin_pass(const Batch& batch) override;
  void add(TensorView x, TensorView y, Pass& pass) override;
  void gather(TensorView x,
              std::span<const std::int32_t> rows,
              TensorView picked,
              Pass& pass) override;
  std::int64_t max_top_k() const override;
  void find_top_k(TensorView logits, TensorView tokens, TensorView values) override;
  void copy_in(TensorView from, TensorView to) override;
  void start_copy_out(TensorView from, TensorView to) override;
  void finish_copies_out() override;

  bool can_capture() const override { return true; }
  std::unique_ptr<CapturedGraph> record(const std::function<void()>& work) override;
  void replay(CapturedGraph& recording) override;
  std::uint64_t memory_version() const override { return memory_version_; }
  bool is_capturing() const override { return recording_ != nullptr; }
  void host_call(const std::function<void()>& work) override;
  void join_host_call() override;

  // Of the batch of this pass, in memory of the GPU.
  const std::int32_t* token_ids() const { return at(token_ids_); }
  const std::int32_t* positions() const { return at(positions_); }
  // Prompts and single tokens apart: kernels are chosen by how many rows a sequence has. Either may
  // be without sequences.
  struct Sequences {
    kernels::cuda::AttentionBatch batch;  // its rows count from …
    std::int64_t first_row = 0;           // … this one of the pass
  };
  std::array<Sequences, 2> sequences(std::int64_t block_tokens) const;
  // Where in a cache of so many tokens a block the row of each token goes; negative: it is not
  // kept.
  const std::int32_t* slots(std::int64_t block_tokens);
  void wait() const { stream_.wait(); }

  // Rows that were rounded to bytes as they were made: the norm's, whose readers all want them so.
  // Held until others are remembered, or rows come into being here by other ways than a layer's.
  void remember_bytes(TensorView of, const kernels::cuda::Q8Rows& bytes) { rounded_ = {of, bytes}; }
  void forget_bytes() { rounded_ = {}; }
  // Null: they are not known.
  const kernels::cuda::Q8Rows* bytes_of(TensorView x) const;

 private:
  using Place = std::size_t;  // in the array of the pass's numbers

  struct Group {
    std::vector<const SequenceSlice*> sequences;
    std::int64_t first_row = 0;
    Place first_rows = 0;
    Place num_tokens = 0;
    Place context_lens = 0;
    Place block_tables = 0;
    std::int64_t num_rows = 0;
    std::int64_t max_tokens = 0;
    std::int64_t max_context = 0;
  };
  struct Slots {
    std::int64_t block_tokens = 0;
    Place place = 0;
  };

  const std::int32_t* at(Place place) const {
    return reinterpret_cast<const std::int32_t*>(numbers_.data()) + place;
  }
  Place append(std::span<const std::int32_t> values);
  void append_group(const Batch& batch, Group& group);
  Place append_slots(const Batch& batch, std::int64_t block_tokens);
  // Values of the pass from `first` on, in order with the GPU's other work.
  void upload_numbers(Place first);
  // Returns what the GPU has counted there.
  std::uint32_t wait_for_arrival(const kernels::cuda::HostSignal& meeting) const;

  CudaStream stream_;
  CudaEvent copied_out_;
  CudaEvent uploaded_;  // the pass's numbers: their staging memory may change
  const Batch* batch_ = nullptr;
  std::vector<std::int32_t> values_;  // of the pass, before they go up together
  Buffer numbers_;
  Buffer numbers_staging_;
  Place token_ids_ = 0;
  Place positions_ = 0;
  std::int64_t table_stride_ = 0;
  Group prompts_;
  Group singles_;
  std::vector<Slots> slots_;
  std::uint64_t memory_version_ = 0;
  struct Rounded {
    TensorView of;
    kernels::cuda::Q8Rows bytes;
  };
  Rounded rounded_;

  class Graph;
  Graph* recording_ = nullptr;         // the one under way
  kernels::cuda::HostSignal awaited_;  // of the call that was not joined yet
};

inline CudaState& cuda_state(Device device, Pass& pass) {
  return static_cast<CudaState&>(pass.devices->at(device));
}

// Time of a module with the work it gave to the GPU; without profiling nothing waits.
class CudaProfileScope {
 public:
  CudaProfileScope(CudaState& state, const Pass& pass, const std::string& module)
      : state_(pass.profiler == nullptr ? nullptr : &state) {
    if (state_ != nullptr) state_->wait();
    scope_.emplace(pass, module);
  }
  CudaProfileScope(const CudaProfileScope&) = delete;
  CudaProfileScope& operator=(const CudaProfileScope&) = delete;
  ~CudaProfileScope() {
    // An error of the GPU shows at the next call that checks: nothing may be thrown here.
    if (state_ != nullptr) cudaStreamSynchronize(state_->stream());
  }

 private:
  CudaState* state_;
  std::optional<ProfileScope> scope_;  // ends after the wait above
};

}  // namespace graft::ops::cuda
