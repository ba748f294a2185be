#include "graft/ops/cuda/cuda_state.h"

#include <algorithm>
#include <cstring>

#include "graft/base/check.h"
#include "graft/kernels/cuda/elementwise.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops {

CudaState::CudaState(Device device) : DeviceState(device), stream_(device.index) {}

void CudaState::begin_pass(const Batch& batch) {
  use_gpu(device().index);
  batch_ = &batch;
  for (auto& [block_tokens, slots] : slots_)
    slots.batch = nullptr;
  values_.clear();
  token_ids_ = append(batch.token_ids);
  positions_ = append(batch.positions);
  append_sequences(batch);
  const std::size_t bytes = values_.size() * sizeof(std::int32_t);
  if (bytes > numbers_memory_.size()) {
    stream_.wait();  // the old ones may still be read
    numbers_memory_ = Buffer(2 * bytes, device());
    numbers_staging_ = Buffer::staging(2 * bytes, device());
  }
  uploaded_.wait();
  std::memcpy(numbers_staging_.data(), values_.data(), bytes);
  numbers_ = TensorView(numbers_memory_.data(), DType::I32,
                        {static_cast<std::int64_t>(values_.size())}, device());
  check_cuda(cudaMemcpyAsync(numbers_memory_.data(), numbers_staging_.data(), bytes,
                             cudaMemcpyHostToDevice, stream_.get()),
             "copying to the GPU");
  uploaded_.record(stream_);
}

CudaState::Place CudaState::append(std::span<const std::int32_t> values) {
  const Place place = values_.size();
  values_.insert(values_.end(), values.begin(), values.end());
  return place;
}

void CudaState::append_sequences(const Batch& batch) {
  max_tokens_ = max_context_ = table_stride_ = 0;
  std::vector<std::int32_t> first_rows;
  std::vector<std::int32_t> num_tokens;
  std::vector<std::int32_t> context_lens;
  for (const SequenceSlice& sequence : batch.sequences) {
    first_rows.push_back(static_cast<std::int32_t>(sequence.first_row));
    num_tokens.push_back(static_cast<std::int32_t>(sequence.num_tokens));
    context_lens.push_back(static_cast<std::int32_t>(sequence.context_len));
    max_tokens_ = std::max(max_tokens_, sequence.num_tokens);
    max_context_ = std::max(max_context_, sequence.context_len);
    table_stride_ = std::max(table_stride_, static_cast<std::int64_t>(sequence.block_table.size()));
  }
  first_rows_ = append(first_rows);
  num_tokens_ = append(num_tokens);
  context_lens_ = append(context_lens);
  block_tables_ = values_.size();
  for (const SequenceSlice& sequence : batch.sequences) {
    append(sequence.block_table);
    values_.resize(values_.size() + static_cast<std::size_t>(table_stride_) -
                   sequence.block_table.size());
  }
}

cuda::AttentionBatch CudaState::sequences(std::int64_t block_tokens) const {
  return {.first_rows = at(first_rows_),
          .num_tokens = at(num_tokens_),
          .context_lens = at(context_lens_),
          .block_tables = at(block_tables_),
          .table_stride = table_stride_,
          .block_tokens = block_tokens,
          .num_sequences = static_cast<std::int64_t>(batch_->sequences.size()),
          .num_rows = batch_->num_tokens(),
          .max_tokens = max_tokens_,
          .max_context = max_context_};
}

const std::int32_t* CudaState::slots(std::int64_t block_tokens) {
  Slots& slots = slots_[block_tokens];
  auto* data = reinterpret_cast<std::int32_t*>(slots.memory.data());
  if (slots.batch == batch_) return data;
  std::vector<std::int32_t> values(static_cast<std::size_t>(batch_->num_tokens()));
  for (const SequenceSlice& sequence : batch_->sequences) {
    for (std::int64_t i = 0; i < sequence.num_tokens; ++i) {
      const std::int64_t position = sequence.context_len - sequence.num_tokens + i;
      const auto block = sequence.block_table[static_cast<std::size_t>(position / block_tokens)];
      values[static_cast<std::size_t>(sequence.first_row + i)] =
          static_cast<std::int32_t>(block * block_tokens + position % block_tokens);
    }
  }
  const std::size_t bytes = values.size() * sizeof(std::int32_t);
  if (bytes > slots.memory.size()) {
    stream_.wait();  // the old ones may still be read
    slots.memory = Buffer(2 * bytes, device());
    data = reinterpret_cast<std::int32_t*>(slots.memory.data());
  }
  upload(values, data);
  slots.batch = batch_;
  return data;
}

void CudaState::upload(std::span<const std::int32_t> values, void* to) {
  check_cuda(cudaMemcpyAsync(to, values.data(), values.size_bytes(), cudaMemcpyHostToDevice,
                             stream_.get()),
             "copying to the GPU");
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
  const Workspace::Scope scope(workspace());
  const TensorView ids = workspace().take(DType::I32, {picked.rows()});
  upload(rows, ids.data);
  cuda::gather_rows(rows_of(x), ids.as<std::int32_t>(), rows_of(picked), picked.rows(), x.cols(),
                    stream());
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

}  // namespace graft::ops
