// A GPU in the passes of a model: its stream, and what operators need of the batch, uploaded once.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "graft/kernels/cuda/attention.h"
#include "graft/kernels/cuda/stream.h"
#include "graft/ops/cuda/runtime.h"
#include "graft/ops/device_state.h"
#include "graft/ops/profiler.h"
#include "graft/tensor/buffer.h"

namespace graft::ops {

class CudaState final : public DeviceState {
 public:
  explicit CudaState(Device device);

  cuda::Stream stream() const { return stream_.get(); }

  void begin_pass(const Batch& batch) override;
  void add(TensorView x, TensorView y, Pass& pass) override;
  void gather(TensorView x,
              std::span<const std::int32_t> rows,
              TensorView picked,
              Pass& pass) override;
  void copy_in(TensorView from, TensorView to) override;
  void start_copy_out(TensorView from, TensorView to) override;
  void finish_copies_out() override;

  // Of the batch of this pass, in memory of the GPU.
  const std::int32_t* token_ids() const { return at(token_ids_); }
  const std::int32_t* positions() const { return at(positions_); }
  cuda::AttentionBatch sequences(std::int64_t block_tokens) const;
  // Where in a cache of so many tokens a block the row of each token goes.
  const std::int32_t* slots(std::int64_t block_tokens);
  void wait() const { stream_.wait(); }

 private:
  using Place = std::size_t;  // in the array of the pass's numbers

  const std::int32_t* at(Place place) const { return numbers_.as<std::int32_t>() + place; }
  Place append(std::span<const std::int32_t> values);
  void append_sequences(const Batch& batch);
  // To memory of the GPU, in order with its other work; `values` may change when it returns.
  void upload(std::span<const std::int32_t> values, void* to);

  CudaStream stream_;
  CudaEvent copied_out_;
  CudaEvent uploaded_;  // the pass's numbers: their staging memory may change
  const Batch* batch_ = nullptr;
  std::vector<std::int32_t> values_;  // of the pass, before they go up together
  TensorView numbers_;
  Buffer numbers_memory_;
  Buffer numbers_staging_;
  Place token_ids_ = 0;
  Place positions_ = 0;
  Place first_rows_ = 0;
  Place num_tokens_ = 0;
  Place context_lens_ = 0;
  Place block_tables_ = 0;
  std::int64_t table_stride_ = 0;
  std::int64_t max_tokens_ = 0;
  std::int64_t max_context_ = 0;
  struct Slots {
    Buffer memory;
    const Batch* batch = nullptr;  // of which they are; null: to be made anew
  };
  std::map<std::int64_t, Slots> slots_;  // by tokens a block
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

}  // namespace graft::ops
