// The state of one GPU during passes: its stream, its graphs, and the batch inputs of the kernels,
// uploaded once per pass.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graft/kernels/cuda/attention/attention.h"
#include "graft/kernels/cuda/attention/delta_net.h"
#include "graft/kernels/cuda/linear/linear.h"
#include "graft/kernels/cuda/stream.h"
#include "graft/ops/cuda/experts/expert_ring.h"
#include "graft/ops/cuda/late_sampling.h"
#include "graft/ops/cuda/runtime/cuda_graphs.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/ops/cuda/sampled_tokens.h"
#include "graft/ops/cuda/sampling_inputs.h"
#include "graft/ops/devices/device_context.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {

class CudaContext final : public DeviceContext {
 public:
  explicit CudaContext(Device device);

  kernels::cuda::Stream stream() const { return stream_.get(); }
  const CudaStream& compute_stream() const { return stream_; }
  // Shared by all layers whose experts are streamed to this GPU.
  ExpertRing& expert_ring() { return expert_ring_; }

  void begin_pass(const Batch& batch) override;
  void add(TensorView x, TensorView y, Pass& pass) override;
  void gather(TensorView x,
              std::span<const std::int32_t> rows,
              TensorView picked,
              Pass& pass) override;
  bool can_sample() const override { return true; }
  void sample(TensorView logits, Pass& pass) override;
  void sample_kept(const BatchSampling& sampling) override;
  void start_tokens_out(std::int64_t num_tokens) override;
  std::span<const std::int32_t> finish_tokens_out() override;
  void discard_tokens() override;
  void copy_in(TensorView from, TensorView to) override;
  void finish_copies_in() override;
  void start_copy_out(TensorView from, TensorView to) override;
  void finish_copies_out() override;

  std::unique_ptr<BlockCopies> make_block_copies(const std::vector<BlockPart>& parts) override;

  GraphCapture* graph_capture() override { return &graphs_; }
  std::size_t record_time() override;
  double seconds_between(std::size_t begin, std::size_t end) override;
  void clear_times() override { num_times_ = 0; }

  // Arrays of the current batch in device memory.
  const std::int32_t* token_ids() const { return at(token_ids_); }
  const std::int32_t* positions() const { return at(positions_); }
  // The adapter of each row, or of each row of the logits, in passes with adapters (Pass::lora).
  const std::int32_t* adapters(bool of_logits) const {
    return at(of_logits ? logit_adapters_ : adapters_);
  }
  // Prefill and decode sequences, which run different kernels. Either may be empty.
  struct Sequences {
    kernels::cuda::AttentionBatch batch;
    std::int64_t first_row = 0;  // the row of the pass that is row 0 of `batch`
  };
  std::array<Sequences, 2> sequences(std::int64_t block_tokens) const;
  // Of the contexts of all prefill sequences.
  std::int64_t num_prefill_positions() const;
  // All sequences of the pass on their recurrent states.
  kernels::cuda::DeltaNetBatch delta_sequences(TensorView slots) const;
  // The cache slot of each token for the given block size; negative: padding, not stored.
  const std::int32_t* slots(std::int64_t block_tokens);
  void wait() const { stream_.wait(); }

 private:
  using Offset = std::size_t;  // in the i32 inputs of the pass

  struct Group {
    std::vector<const SequenceSlice*> sequences;
    std::int64_t first_row = 0;
    Offset first_rows = 0;
    Offset num_tokens = 0;
    Offset context_lens = 0;
    Offset block_tables = 0;
    std::int64_t num_rows = 0;
    std::int64_t max_tokens = 0;
    std::int64_t max_context = 0;
  };
  struct Slots {
    std::int64_t block_tokens = 0;
    Offset offset = 0;
  };

  const std::int32_t* at(Offset offset) const {
    return reinterpret_cast<const std::int32_t*>(inputs_.data()) + offset;
  }
  Offset append(std::span<const std::int32_t> values);
  void append_group(const Batch& batch, Group& group);
  void append_adapters(const Batch& batch);
  Offset append_slots(const Batch& batch, std::int64_t block_tokens);
  void append_states(const Batch& batch);
  // The inputs from `first` on, in stream order.
  void upload_inputs(Offset first);

  CudaStream stream_;
  CudaEvent copied_in_;
  CudaEvent copied_out_;
  CudaEvent uploaded_;  // after it, inputs_staging_ may be overwritten
  const Batch* batch_ = nullptr;
  std::vector<std::int32_t> values_;  // of the pass, on the host
  Buffer inputs_;
  Buffer inputs_staging_;
  Offset token_ids_ = 0;
  Offset positions_ = 0;
  Offset adapters_ = 0;
  Offset logit_adapters_ = 0;
  std::int64_t table_stride_ = 0;
  Group prefill_;
  Group decode_;
  std::vector<Slots> slots_;
  Offset states_ = 0;  // DeltaSequence
  SamplingInputs sampling_;
  ExpertRing expert_ring_;
  CudaGraphCapture graphs_;
  SampledTokens sampled_;
  LateSampling late_sampling_;
  std::vector<std::unique_ptr<CudaEvent>> times_;  // reused by every pass
  std::size_t num_times_ = 0;                      // of this pass
};

inline CudaContext& cuda_context(Device device, Pass& pass) {
  return static_cast<CudaContext&>(pass.devices->at(device));
}

}  // namespace graft::ops::cuda
