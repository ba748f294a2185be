// The devices of a model in its passes: memory to work in, copies between them, and the little that
// is computed outside of operators.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "graft/ops/pass.h"
#include "graft/tensor/tensor.h"

namespace graft::ops {

class Registry;

// What a device was asked to do between two points of a pass: see DeviceState::record().
class CapturedGraph {
 public:
  CapturedGraph() = default;
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  virtual ~CapturedGraph() = default;
};

// One device. It does its work in the order it was asked for, but not at once: only
// finish_copies_out() waits.
class DeviceState {
 public:
  explicit DeviceState(Device device)
      : device_(device), workspace_(device), staging_(kCpu, device) {}
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;
  virtual ~DeviceState() = default;

  Device device() const { return device_; }
  Workspace& workspace() { return workspace_; }
  Workspace& staging() { return staging_; }  // memory of the processor

  // Before the operators of a pass: brings there what they need of the batch.
  virtual void begin_pass(const Batch& /*batch*/) {}
  virtual void add(TensorView x, TensorView y, Pass& pass) = 0;  // x += y
  // picked[i] = x[rows[i]]
  virtual void gather(TensorView x,
                      std::span<const std::int32_t> rows,
                      TensorView picked,
                      Pass& pass) = 0;

  // How many candidates it finds in a row at most; 0: find_top_k() is not there.
  virtual std::int64_t max_top_k() const { return 0; }
  // The largest of each row of logits, the largest first, of equals the lower token; one that is no
  // number comes before all others. tokens[rows, count] i32, values[rows, count] f32.
  virtual void find_top_k(TensorView /*logits*/, TensorView /*tokens*/, TensorView /*values*/) {}

  // From memory of the processor, which may change as soon as this returns. Staging memory may not
  // before a copy out that was started later has been finished.
  virtual void copy_in(TensorView from, TensorView to) = 0;
  // To memory of the processor, where it is after finish_copies_out().
  virtual void start_copy_out(TensorView from, TensorView to) = 0;
  virtual void finish_copies_out() = 0;

  // Whether the next ones are there.
  virtual bool can_capture() const { return false; }
  // Runs `work`, which asks this device and no other, but the device only takes note: replay() does
  // all of it, reading what the memory holds then. The same was done once before, so that nothing
  // is allocated now.
  virtual std::unique_ptr<CapturedGraph> record(const std::function<void()>& /*work*/) {
    return nullptr;
  }
  // Returns when it is done, copies out included.
  virtual void replay(CapturedGraph& /*recording*/) {}
  // Another number when memory that recordings read was replaced: they are of no use any more.
  virtual std::uint64_t memory_version() const { return 0; }

  // Whether record() is under way. Then the processor may not be asked directly: `work` runs there
  // at every replay, after what was asked of the device so far, and beside what is asked until
  // join_host_call(), which lets the device wait for it. It may not ask any device.
  virtual bool is_capturing() const { return false; }
  virtual void host_call(const std::function<void()>& /*work*/) {}
  virtual void join_host_call() {}

 private:
  Device device_;
  Workspace workspace_;
  Workspace staging_;
};

// Those of one model, made when they are first asked for.
class PassDevices {
 public:
  explicit PassDevices(const Registry& registry) : registry_(registry) {}

  DeviceState& at(Device device);
  // All that were asked for before.
  void begin_pass(const Batch& batch);
  // From any device to any other; what is then in memory of the processor is there when it returns.
  void copy(TensorView from, TensorView to);

 private:
  const Registry& registry_;
  std::map<Device, std::unique_ptr<DeviceState>> states_;
};

// The same pass, for an operator on another device.
Pass on(Device device, const Pass& pass);

}  // namespace graft::ops
