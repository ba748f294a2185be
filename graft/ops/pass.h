// One forward pass: the tokens of each sequence, their KV cache blocks, and the memory and threads
// to use. Passed to every operator, never global.

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "graft/base/parallel.h"
#include "graft/kernels/sampling_types.h"
#include "graft/tensor/tensor.h"

namespace graft::ops {

class Profiler;

// A copy of the recurrent states of a sequence after the first `num_tokens` of its tokens in a
// pass.
struct StateCheckpoint {
  std::int64_t num_tokens = 0;
  std::int32_t slot = 0;
};
inline constexpr std::size_t kMaxStateCheckpoints = 2;  // of one sequence in a pass

// The tokens of one sequence in a pass: `num_tokens` rows from `first_row`, at positions
// [context_len - num_tokens, context_len).
struct SequenceSlice {
  std::int64_t first_row = 0;
  std::int64_t num_tokens = 0;
  std::int64_t context_len = 0;                   // tokens in the KV cache after this pass
  std::vector<std::int32_t> block_table;          // blocks that hold positions [0, context_len)
  std::int32_t state_slot = -1;                   // of its recurrent states; -1: the model has none
  std::vector<StateCheckpoint> checkpoints = {};  // by num_tokens, ascending
  std::int32_t adapter = -1;                      // of Model::set_adapter(); -1: none
};

// How the device of the head samples a token from each row of logits. Empty: it does not.
struct BatchSampling {
  std::vector<kernels::RowSampling> rows;  // one per entry of logit_rows
  std::vector<kernels::LogitEdit> edits;   // of all rows
  std::vector<std::uint32_t> masks;        // of all rows with RowSampling::first_mask
};

// Rows of a batch whose embeddings are given: those of images.
struct GivenRows {
  std::int64_t first_row = 0;
  std::int64_t count = 0;
  const float* values = nullptr;  // [count, hidden_size] in host memory, until the pass has started
};

// The rows of all sequences, concatenated. Sizes: t = tokens, s = sequences.
struct Batch {
  // [t]. Negative: -1 - r is the token that the device sampled for row r of the logits of the pass
  // before, which the host need not know.
  std::vector<std::int32_t> token_ids;
  // [t], in the token's own sequence; with the bit kLongRopeFlag (params.h) in long sequences of
  // models with LongRoPE.
  std::vector<std::int32_t> positions;
  std::vector<SequenceSlice> sequences;  // [s]
  std::vector<std::int32_t> logit_rows;  // rows whose logits are requested, ascending
  BatchSampling sampling;
  std::vector<GivenRows> given_rows;  // replace the embeddings of their tokens, which are 0
  // The context bucket, an upper bound of all context lengths; 0: their maximum. It selects
  // kernels, so all passes of one CUDA graph have the same value.
  std::int64_t max_context = 0;
  // The last num_padding sequences, of one token each, are padding up to the graph bucket. Their
  // keys, values and states are not stored.
  std::int64_t num_padding = 0;

  std::int64_t num_tokens() const { return static_cast<std::int64_t>(token_ids.size()); }
  std::span<const SequenceSlice> unpadded_sequences() const {
    return std::span(sequences).first(sequences.size() - static_cast<std::size_t>(num_padding));
  }
};

enum class Phase : std::uint8_t { Prefill, Decode };

// Scratch memory of one device, allocated like a stack: a Scope frees all allocations made since
// its construction. The workspace grows to the largest pass and never shrinks, so later passes do
// not allocate device memory.
class Workspace {
 public:
  // Memory on `device`. With device kCpu and a GPU as `staging_for`: pinned host memory for copies
  // to and from that GPU.
  explicit Workspace(Device device = kCpu, Device staging_for = kCpu);
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();

  // Uninitialized, aligned to 64 bytes.
  TensorView allocate(DType dtype, std::initializer_list<std::int64_t> shape);
  TensorView f32(std::initializer_list<std::int64_t> shape) { return allocate(DType::F32, shape); }
  std::size_t peak_bytes() const;

  // For allocations that outlive a function. If an exception skips free_to(), an enclosing Scope
  // frees them.
  struct Mark {
    std::size_t chunk = 0;
    std::size_t used = 0;
  };
  Mark mark() const;
  void free_to(Mark mark);

  class Scope {
   public:
    explicit Scope(Workspace& workspace) : workspace_(workspace), mark_(workspace.mark()) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { workspace_.free_to(mark_); }

   private:
    Workspace& workspace_;
    Mark mark_;
  };

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class DeferredExperts;
class PassDevices;
class SelectedPositions;
struct LoraRows;

struct Pass {
  const Batch& batch;
  Phase phase = Phase::Prefill;
  ThreadPool& pool;
  Workspace& workspace;                   // on the operator's device
  Profiler* profiler = nullptr;           // null: not profiling
  PassDevices* devices = nullptr;         // null: CPU only
  DeferredExperts* deferred = nullptr;    // null: no layer defers experts
  SelectedPositions* selected = nullptr;  // null: no layers share an indexer
  const LoraRows* lora = nullptr;         // null: no sequence has an adapter
};

// The same pass with another batch or workspace. The only function that lists the members.
inline Pass with(const Pass& pass, const Batch& batch, Workspace& workspace) {
  return {.batch = batch,
          .phase = pass.phase,
          .pool = pass.pool,
          .workspace = workspace,
          .profiler = pass.profiler,
          .devices = pass.devices,
          .deferred = pass.deferred,
          .selected = pass.selected,
          .lora = pass.lora};
}

}  // namespace graft::ops
