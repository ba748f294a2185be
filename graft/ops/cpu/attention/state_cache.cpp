#include <cstring>
#include <string>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/system/reserved_memory.h"
#include "graft/ops/cpu/operators.h"

namespace graft::ops::cpu {
namespace {

class StateCacheCpu final : public StateCache {
 public:
  StateCacheCpu(std::string module, const StateCacheParams& params)
      : module_(std::move(module)), params_(params) {}

  void allocate(std::int64_t num_slots) override {
    memory_ = {};  // free the old storage first: both may not fit
    memory_ = ReservedMemory(static_cast<std::size_t>(num_slots) * bytes_per_slot());
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
    std::memcpy(slot_data(to), slot_data(from), bytes_per_slot());
  }
  void save_slot(std::int64_t slot, std::span<std::byte> out) const override {
    GRAFT_CHECK(out.size() == bytes_per_slot(), module_, ": output of ", out.size(),
                " bytes for a slot of ", bytes_per_slot());
    std::memcpy(out.data(), slot_data(slot), out.size());
  }
  void load_slot(std::int64_t slot, std::span<const std::byte> in) override {
    GRAFT_CHECK(in.size() == bytes_per_slot(), module_, ": input of ", in.size(),
                " bytes for a slot of ", bytes_per_slot());
    std::memcpy(slot_data(slot), in.data(), in.size());
  }
  void release_slots(std::int64_t first, std::int64_t count) override {
    memory_.release(static_cast<std::size_t>(first) * bytes_per_slot(),
                    static_cast<std::size_t>(count) * bytes_per_slot());
  }
  std::string form() const override {
    return str("f32 ", params_.recurrent_size, "+", params_.conv_size);
  }
  TensorView slots() const override {
    return {memory_.data(), DType::F32, {num_slots_, num_values()}};
  }

 private:
  std::int64_t num_values() const { return params_.recurrent_size + params_.conv_size; }
  std::byte* slot_data(std::int64_t slot) const {
    GRAFT_DCHECK(slot >= 0 && slot < num_slots_, module_, ": slot ", slot, " of ", num_slots_);
    return memory_.data() + static_cast<std::size_t>(slot) * bytes_per_slot();
  }

  std::string module_;
  StateCacheParams params_;
  std::int64_t num_slots_ = 0;
  ReservedMemory memory_;  // [slots, recurrent_size + conv_size] f32
};

}  // namespace

std::unique_ptr<Operator> make_state_cache_cpu(const BuildContext& context) {
  return std::make_unique<StateCacheCpu>(context.module, context.params_as<StateCacheParams>());
}

}  // namespace graft::ops::cpu
