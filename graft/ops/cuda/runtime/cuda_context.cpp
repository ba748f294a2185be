#include "graft/ops/cuda/runtime/cuda_context.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/kernels/cuda/elementwise.h"
#include "graft/kernels/cuda/sample_tokens.h"
#include "graft/ops/cuda/runtime/block_copies.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {
namespace {

// Enough for most models and batches: growing it invalidates captured graphs.
constexpr std::size_t kMinInputBytes = std::size_t{1} << 20U;

}  // namespace

CudaContext::CudaContext(Device device)
    : DeviceContext(device),
      stream_(device.index),
      expert_ring_(device),
      graphs_(device, stream_, copied_out_),
      sampled_(device),
      late_sampling_(device) {}

std::unique_ptr<BlockCopies> CudaContext::make_block_copies(const std::vector<BlockPart>& parts) {
  return std::make_unique<CudaBlockCopies>(device(), stream_, parts);
}

void CudaContext::begin_pass(const Batch& batch) {
  use_gpu(device().index);
  batch_ = &batch;
  values_.clear();
  token_ids_ = append(batch.token_ids);
  positions_ = append(batch.positions);
  prefill_ = decode_ = {};
  table_stride_ = 0;
  for (const SequenceSlice& sequence : batch.sequences) {
    (sequence.num_tokens > 1 ? prefill_ : decode_).sequences.push_back(&sequence);
    table_stride_ = std::max(table_stride_, static_cast<std::int64_t>(sequence.block_table.size()));
  }
  append_group(batch, prefill_);
  append_group(batch, decode_);
  for (Slots& slots : slots_)
    slots.offset = append_slots(batch, slots.block_tokens);
  append_states(batch);
  append_adapters(batch);
  // Last, because the numbers of edits and masks vary: the offsets before are those of captured
  // graphs.
  sampling_ = append_sampling(batch.sampling, values_);
  upload_inputs(0);
  if (std::ranges::any_of(batch.token_ids, [](std::int32_t id) { return id < 0; })) {
    kernels::cuda::resolve_tokens(reinterpret_cast<std::int32_t*>(inputs_.data()) + token_ids_,
                                  batch.num_tokens(), sampled_.tokens(), stream());
  }
  if (sampled_.reserve(batch.logit_rows.size(), stream_)) graphs_.invalidate();
}

void CudaContext::append_states(const Batch& batch) {
  static_assert(kMaxStateCheckpoints == kernels::cuda::kStateCheckpoints);
  std::vector<kernels::cuda::DeltaSequence> sequences;
  const std::size_t num_unpadded = batch.unpadded_sequences().size();
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const SequenceSlice& slice = batch.sequences[i];
    kernels::cuda::DeltaSequence sequence = {
        .first_row = static_cast<std::int32_t>(slice.first_row),
        .num_tokens = static_cast<std::int32_t>(slice.num_tokens),
        .is_first = slice.context_len == slice.num_tokens ? 1 : 0,
        .slot = i < num_unpadded ? slice.state_slot : -1};
    for (std::size_t k = 0; k < slice.checkpoints.size() && i < num_unpadded; ++k) {
      sequence.checkpoint_tokens[k] = static_cast<std::int32_t>(slice.checkpoints[k].num_tokens);
      sequence.checkpoint_slots[k] = slice.checkpoints[k].slot;
    }
    sequences.push_back(sequence);
  }
  states_ = append_structs(sequences, values_);
}

kernels::cuda::DeltaNetBatch CudaContext::delta_sequences(TensorView slots) const {
  std::int64_t max_tokens = 0;
  for (const SequenceSlice& sequence : batch_->sequences)
    max_tokens = std::max(max_tokens, sequence.num_tokens);
  return {.sequences = reinterpret_cast<const kernels::cuda::DeltaSequence*>(at(states_)),
          .num_sequences = static_cast<std::int64_t>(batch_->sequences.size()),
          .num_rows = batch_->num_tokens(),
          .max_tokens = max_tokens,
          .slots = rows_of(slots)};
}

void CudaContext::append_adapters(const Batch& batch) {
  const bool has_adapters = std::ranges::any_of(
      batch.sequences, [](const SequenceSlice& sequence) { return sequence.adapter >= 0; });
  if (!has_adapters) return;
  std::vector<std::int32_t> adapters(batch.token_ids.size(), -1);
  for (const SequenceSlice& sequence : batch.sequences) {
    std::fill_n(adapters.begin() + sequence.first_row, sequence.num_tokens, sequence.adapter);
  }
  adapters_ = append(adapters);
  logit_adapters_ = values_.size();
  for (const std::int32_t row : batch.logit_rows)
    values_.push_back(adapters[static_cast<std::size_t>(row)]);
}

CudaContext::Offset CudaContext::append(std::span<const std::int32_t> values) {
  const Offset offset = values_.size();
  values_.insert(values_.end(), values.begin(), values.end());
  return offset;
}

void CudaContext::append_group(const Batch& batch, Group& group) {
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
    const Offset table = append(sequence->block_table);
    values_.resize(table + static_cast<std::size_t>(table_stride_));
  }
}

CudaContext::Offset CudaContext::append_slots(const Batch& batch, std::int64_t block_tokens) {
  const Offset offset = values_.size();
  values_.resize(offset + batch.token_ids.size(), -1);
  for (const SequenceSlice& sequence : batch.unpadded_sequences()) {
    for (std::int64_t i = 0; i < sequence.num_tokens; ++i) {
      const std::int64_t position = sequence.context_len - sequence.num_tokens + i;
      const auto block = sequence.block_table[static_cast<std::size_t>(position / block_tokens)];
      values_[offset + static_cast<std::size_t>(sequence.first_row + i)] =
          static_cast<std::int32_t>(block * block_tokens + position % block_tokens);
    }
  }
  return offset;
}

void CudaContext::upload_inputs(Offset first) {
  const std::size_t bytes = values_.size() * sizeof(std::int32_t);
  if (bytes > inputs_.size()) {
    stream_.wait();  // kernels may still read the old buffer
    const std::size_t size = std::max(2 * bytes, kMinInputBytes);
    inputs_ = Buffer(size, device());
    inputs_staging_ = Buffer::staging(size, device());
    graphs_.invalidate();
    first = 0;
  }
  uploaded_.wait();
  const std::size_t begin = first * sizeof(std::int32_t);
  std::memcpy(inputs_staging_.data() + begin, values_.data() + first, bytes - begin);
  check_cuda(cudaMemcpyAsync(inputs_.data() + begin, inputs_staging_.data() + begin, bytes - begin,
                             cudaMemcpyHostToDevice, stream_.get()),
             "copying to the GPU");
  uploaded_.record(stream_);
}

std::array<CudaContext::Sequences, 2> CudaContext::sequences(std::int64_t block_tokens) const {
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
  return {of(prefill_), of(decode_)};
}

std::int64_t CudaContext::num_prefill_positions() const {
  std::int64_t sum = 0;
  for (const SequenceSlice* sequence : prefill_.sequences)
    sum += sequence->context_len;
  return sum;
}

const std::int32_t* CudaContext::slots(std::int64_t block_tokens) {
  for (const Slots& slots : slots_) {
    if (slots.block_tokens == block_tokens) return at(slots.offset);
  }
  // A new block size: from the next pass on its slots are uploaded with the other inputs.
  GRAFT_CHECK(!is_capturing(), "the block size of the KV cache changed during capture");
  const Offset offset = append_slots(*batch_, block_tokens);
  upload_inputs(offset);
  slots_.push_back({.block_tokens = block_tokens, .offset = offset});
  graphs_.invalidate();
  return at(offset);
}

void CudaContext::add(TensorView x, TensorView y, Pass& /*pass*/) {
  use_gpu(device().index);
  kernels::cuda::add(rows_of(x), rows_of(y), rows_of(x), x.rows(), x.cols(), stream());
}

void CudaContext::gather(TensorView x,
                         std::span<const std::int32_t> rows,
                         TensorView picked,
                         Pass& /*pass*/) {
  use_gpu(device().index);
  const Offset ids = append(rows);
  upload_inputs(ids);
  kernels::cuda::gather_rows(rows_of(x), at(ids), rows_of(picked), picked.rows(), x.cols(),
                             stream());
}

void CudaContext::sample(TensorView logits, Pass& pass) {
  use_gpu(device().index);
  const std::int64_t rows = logits.rows();
  GRAFT_CHECK(static_cast<std::size_t>(rows) == batch_->sampling.rows.size(), rows,
              " rows of logits, parameters for ", batch_->sampling.rows.size());
  const auto bytes =
      static_cast<std::int64_t>(kernels::cuda::sample_tokens_bytes(rows, logits.cols()));
  const TensorView scratch = pass.workspace.allocate(DType::U8, {bytes});
  kernels::cuda::sample_tokens(
      rows_of(logits), rows, logits.cols(),
      {.rows = reinterpret_cast<const kernels::RowSampling*>(at(sampling_.rows)),
       .edits = reinterpret_cast<const kernels::LogitEdit*>(at(sampling_.edits)),
       .masks = reinterpret_cast<const std::uint32_t*>(at(sampling_.edits)),
       .tokens = sampled_.tokens()},
      scratch.data, stream());
}

void CudaContext::sample_kept(const BatchSampling& sampling) {
  use_gpu(device().index);
  late_sampling_.run(kept_logits(), sampling, sampled_.tokens(), stream_);
}

void CudaContext::start_tokens_out(std::int64_t num_tokens) {
  use_gpu(device().index);
  sampled_.start_copy(num_tokens, stream_);
}

std::span<const std::int32_t> CudaContext::finish_tokens_out() {
  return sampled_.finish_copy();
}

void CudaContext::discard_tokens() {
  sampled_.discard();
}

void CudaContext::copy_in(TensorView from, TensorView to) {
  use_gpu(device().index);
  check_cuda(cudaMemcpyAsync(to.data, from.data, from.bytes(), cudaMemcpyHostToDevice, stream()),
             "copying to the GPU");
}

void CudaContext::finish_copies_in() {
  copied_in_.record(stream_);
  copied_in_.wait();
}

void CudaContext::start_copy_out(TensorView from, TensorView to) {
  use_gpu(device().index);
  check_cuda(cudaMemcpyAsync(to.data, from.data, from.bytes(), cudaMemcpyDeviceToHost, stream()),
             "copying from the GPU");
  copied_out_.record(stream_);
}

void CudaContext::finish_copies_out() {
  copied_out_.wait();
}

std::size_t CudaContext::record_time() {
  if (num_times_ == times_.size())
    times_.emplace_back(std::make_unique<CudaEvent>(EventKind::Timed));
  times_[num_times_]->record_unchecked(stream_);
  return num_times_++;
}

double CudaContext::seconds_between(std::size_t begin, std::size_t end) {
  return CudaEvent::seconds_between(*times_[begin], *times_[end]);
}

}  // namespace graft::ops::cuda
