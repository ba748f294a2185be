// Per-device state of forward passes: workspace, copies, timing, graph capture, and the operations
// outside of operators (add, gather, sampling).

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "graft/ops/devices/block_copies.h"
#include "graft/ops/pass.h"
#include "graft/tensor/tensor.h"

namespace graft::ops {

class Registry;

// A sequence of device operations that can be replayed (a CUDA graph).
class CapturedGraph {
 public:
  CapturedGraph() = default;
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;
  virtual ~CapturedGraph() = default;
};

// Captures and replays graphs on one device.
class GraphCapture {
 public:
  GraphCapture() = default;
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;
  virtual ~GraphCapture() = default;

  // Runs `work`, whose operations on the device are captured instead of executed. The same work
  // must have run once before, so that nothing is allocated during capture.
  virtual std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) = 0;
  // Starts the operations on the current contents of memory. Returns when the host calls are done;
  // copies to the host are complete after finish_copies_out().
  virtual void replay(CapturedGraph& graph) = 0;
  virtual bool is_capturing() const = 0;
  // Changes when memory that graphs refer to is replaced: graphs of another version are invalid.
  virtual std::uint64_t memory_version() const = 0;

  // While capturing: every replay runs `work` on the host, after the operations captured so far and
  // beside those captured until join_host_call(), where the device waits for it. Then the host runs
  // `later`, which may be null, beside the operations after the join. Neither may use the device.
  virtual void host_call(const std::function<void()>& work, const std::function<void()>& later) = 0;
  virtual void join_host_call() = 0;
};

// One device. It executes in the order of the calls, asynchronously: only finish_copies_out() and
// finish_copies_in() wait.
class DeviceContext {
 public:
  explicit DeviceContext(Device device)
      : device_(device), workspace_(device), staging_(kCpu, device) {}
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;
  virtual ~DeviceContext() = default;

  Device device() const { return device_; }
  Workspace& workspace() { return workspace_; }
  Workspace& staging() { return staging_; }  // host memory, pinned where the device can

  // Before the operators of a pass: uploads the parts of the batch that they read.
  virtual void begin_pass(const Batch& /*batch*/) {}
  virtual void add(TensorView x, TensorView y, Pass& pass) = 0;  // x += y
  // picked[i] = x[rows[i]]
  virtual void gather(TensorView x,
                      std::span<const std::int32_t> rows,
                      TensorView picked,
                      Pass& pass) = 0;

  // Whether the device samples tokens: sample() and what follows it.
  virtual bool can_sample() const { return false; }
  // Samples a token for each row of logits[rows, vocab] as the batch says. The tokens stay on the
  // device, where the next batch may refer to them.
  virtual void sample(TensorView logits, Pass& pass);
  // For parameters that are known only when the pass has been started: its logits[rows, vocab], in
  // the workspace, where they stay until the next pass.
  void keep_logits(TensorView logits) { kept_logits_ = logits; }
  TensorView kept_logits() const { return kept_logits_; }
  // After the pass: samples as sample() does, from the first rows of the kept logits.
  virtual void sample_kept(const BatchSampling& sampling);
  // At the end of a pass, outside of a capture: starts to copy its tokens to the host. The tokens
  // of at most two passes are on their way.
  virtual void start_tokens_out(std::int64_t num_tokens);
  // Waits for the oldest pass whose tokens are on their way; -1: sampling failed (every token is
  // masked, or a logit is NaN or infinite). Valid until start_tokens_out() has been called twice.
  virtual std::span<const std::int32_t> finish_tokens_out();
  // After a failure: waits for the device and forgets all tokens on their way.
  virtual void discard_tokens() {}

  // From host memory, which may be overwritten when this returns; staging memory only after a later
  // finish_copies_out() or finish_copies_in().
  virtual void copy_in(TensorView from, TensorView to) = 0;
  // Waits until staging memory given to copy_in() may be overwritten. A device that copies at once
  // has nothing to wait for.
  virtual void finish_copies_in() {}
  // To host memory, complete after finish_copies_out().
  virtual void start_copy_out(TensorView from, TensorView to) = 0;
  virtual void finish_copies_out() = 0;

  // Null: the device copies blocks only outside of passes.
  virtual std::unique_ptr<BlockCopies> make_block_copies(const std::vector<BlockPart>& /*parts*/) {
    return nullptr;
  }

  // Null: the device has no graphs.
  virtual GraphCapture* graph_capture() { return nullptr; }
  bool is_capturing() { return graph_capture() != nullptr && graph_capture()->is_capturing(); }

  // Records a timestamp in the device's execution order; returns its index in this pass.
  virtual std::size_t record_time();
  // Seconds from one timestamp to the other; waits for both.
  virtual double seconds_between(std::size_t begin, std::size_t end);
  virtual void clear_times() { times_.clear(); }

 private:
  Device device_;
  Workspace workspace_;
  Workspace staging_;
  TensorView kept_logits_;
  std::vector<std::chrono::steady_clock::time_point> times_;
};

// The contexts of one model, created on first use.
class PassDevices {
 public:
  explicit PassDevices(const Registry& registry) : registry_(registry) {}

  DeviceContext& at(Device device);
  // Calls begin_pass() on all existing contexts.
  void begin_pass(const Batch& batch);
  // The peak of the workspaces by device; staging memory counts for the host.
  std::map<Device, std::size_t> workspace_bytes() const;
  // Between any two devices; a copy to the host is complete on return.
  void copy(TensorView from, TensorView to);

 private:
  const Registry& registry_;
  std::map<Device, std::unique_ptr<DeviceContext>> contexts_;
};

// The same pass, for an operator on another device.
Pass on(Device device, const Pass& pass);

}  // namespace graft::ops
