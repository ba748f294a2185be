#include <string>

#include "graft/base/check.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {
namespace {

class StateCacheCuda final : public StateCache {
 public:
  explicit StateCacheCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<StateCacheParams>()),
        device_(context.device) {}

  void allocate(std::int64_t num_slots) override {
    memory_ = {};  // free the old storage first: both may not fit
    memory_ = Buffer(static_cast<std::size_t>(num_slots) * bytes_per_slot(), device_);
    num_slots_ = num_slots;
  }
  void unload() override {
    memory_ = {};
    num_slots_ = 0;
  }
  std::int64_t num_slots() const override { return num_slots_; }
  std::size_t bytes_per_slot() const override {
    return static_cast<std::size_t>(num_values()) * sizeof(float);
  }
  void copy_slot(std::int64_t from, std::int64_t to) override {
    copy_in_order(device_.index, slot_data(to), slot_data(from), bytes_per_slot(),
                  cudaMemcpyDeviceToDevice);
  }
  void save_slot(std::int64_t slot, std::span<std::byte> out) const override {
    GRAFT_CHECK(out.size() == bytes_per_slot(), module_, ": output of ", out.size(),
                " bytes for a slot of ", bytes_per_slot());
    copy_in_order(device_.index, out.data(), slot_data(slot), out.size(), cudaMemcpyDeviceToHost);
  }
  void load_slot(std::int64_t slot, std::span<const std::byte> in) override {
    GRAFT_CHECK(in.size() == bytes_per_slot(), module_, ": input of ", in.size(),
                " bytes for a slot of ", bytes_per_slot());
    copy_in_order(device_.index, slot_data(slot), in.data(), in.size(), cudaMemcpyHostToDevice);
  }
  // Does nothing: GPU memory is allocated and freed as a whole.
  void release_slots(std::int64_t /*first*/, std::int64_t /*count*/) override {}
  std::string form() const override {
    return str("f32 ", params_.recurrent_size, "+", params_.conv_size);
  }
  TensorView slots() const override {
    return {memory_.data(), DType::F32, {num_slots_, num_values()}, device_};
  }

 private:
  std::int64_t num_values() const { return params_.recurrent_size + params_.conv_size; }
  std::byte* slot_data(std::int64_t slot) const {
    GRAFT_DCHECK(slot >= 0 && slot < num_slots_, module_, ": slot ", slot, " of ", num_slots_);
    return memory_.data() + static_cast<std::size_t>(slot) * bytes_per_slot();
  }

  std::string module_;
  StateCacheParams params_;
  Device device_;
  std::int64_t num_slots_ = 0;
  Buffer memory_;  // [slots, recurrent_size + conv_size] f32
};

}  // namespace

std::unique_ptr<Operator> make_state_cache_cuda(const BuildContext& context) {
  return std::make_unique<StateCacheCuda>(context);
}

}  // namespace graft::ops::cuda
