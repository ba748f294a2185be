// For tests: the context of devices without hardware (device.h).

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/devices/device_context.h"
#include "graft/testing/device_memory.h"
#include "graft/testing/sample_row.h"

namespace graft::ops::testing {

inline void expect_on(Device device, const TensorView& view, const std::string& what) {
  GRAFT_CHECK(view.device == device && test_memory().has(device, view), what, " runs on ",
              to_string(device), ", its rows are on ", to_string(view.device));
}

// Makes the n-th operation of the test devices from now on throw Error.
struct TestFault {
  std::int64_t countdown = 0;  // 0: no fault
  bool is_lasting = false;     // later operations fail too

  void count_operation() {
    if (countdown == 0 || --countdown > 0) return;
    if (is_lasting) countdown = 1;
    fail("cuda:0: broken for a test");
  }
};

inline TestFault& test_fault() {
  static TestFault fault;
  return fault;
}

// Bytes that all test devices have copied to the host.
inline std::size_t& test_bytes_out() {
  static std::size_t bytes = 0;
  return bytes;
}

// Host calls that replays of all test devices have run.
inline std::size_t& test_host_calls() {
  static std::size_t count = 0;
  return count;
}

// Block copies that are done when they have been asked about twice: until then a saved block is
// garbage in host memory.
class TestBlockCopies final : public BlockCopies {
 public:
  explicit TestBlockCopies(std::vector<BlockPart> parts) : parts_(std::move(parts)) {}

  std::int64_t num_free() override { return kSlots - num_used_; }
  std::uint64_t start_save(std::span<const HostBlock> blocks) override {
    Copy& copy = start(static_cast<std::int64_t>(blocks.size()));
    for (const HostBlock& block : blocks) {
      for (const BlockPart& part : parts_) {
        const std::byte* from = part.blocks + static_cast<std::size_t>(block.block) * part.bytes;
        std::byte* to = block.data + part.offset;
        std::memset(to, 0x7f, part.bytes);
        copy.pieces.push_back({.bytes = {from, from + part.bytes}, .to = to});
      }
    }
    return num_copies_++;
  }
  std::uint64_t start_load(std::span<const ConstHostBlock> blocks) override {
    start(static_cast<std::int64_t>(blocks.size()));
    for (const ConstHostBlock& block : blocks) {
      for (const BlockPart& part : parts_)
        std::memcpy(part.blocks + static_cast<std::size_t>(block.block) * part.bytes,
                    block.data + part.offset, part.bytes);
    }
    return num_copies_++;
  }
  bool is_done(std::uint64_t copy) override {
    test_fault().count_operation();
    if (!copies_.empty() && ++copies_.front().num_asked == 2) finish_first();
    return copies_.empty() || copies_.front().index > copy;
  }
  double seconds(std::uint64_t /*copy*/) override { return 1e-6; }
  void wait() override {
    try {
      test_fault().count_operation();
    } catch (...) {
      copies_.clear();
      num_used_ = 0;
      throw;
    }
    while (!copies_.empty())
      finish_first();
  }

 private:
  static constexpr std::int64_t kSlots = 4;

  struct Piece {
    std::vector<std::byte> bytes;
    std::byte* to = nullptr;
  };
  struct Copy {
    std::uint64_t index = 0;
    std::int64_t num_blocks = 0;
    int num_asked = 0;
    std::vector<Piece> pieces = {};
  };

  Copy& start(std::int64_t count) {
    test_fault().count_operation();
    while (!copies_.empty() && num_free() < count)
      finish_first();
    num_used_ += count;
    return copies_.emplace_back(Copy{.index = num_copies_, .num_blocks = count});
  }
  void finish_first() {
    for (const Piece& piece : copies_.front().pieces)
      std::memcpy(piece.to, piece.bytes.data(), piece.bytes.size());
    num_used_ -= copies_.front().num_blocks;
    copies_.pop_front();
  }

  std::vector<BlockPart> parts_;
  std::deque<Copy> copies_;
  std::int64_t num_used_ = 0;
  std::uint64_t num_copies_ = 0;
};

// Copies to the host appear only in finish_copies_out(): reading too early reads garbage. While
// capturing, operations are stored and run at every replay. A host call runs as late as possible,
// at its join, so that device work before the join that reads its result or overwrites its inputs
// fails the test.
class TestContext final : public DeviceContext, public GraphCapture {
 public:
  explicit TestContext(Device device)
      : DeviceContext(device), cpu_(cpu::make_cpu_context(kCpu)), replay_workspace_(device) {}

  // Runs `work` now, or at every replay while capturing, with the pass whose workspace it may use.
  void run(Pass& pass, const std::function<void(Pass&)>& work) {
    test_fault().count_operation();
    if (capturing_ == nullptr) return work(pass);
    // A replay needs its own workspace: memory of the pass's workspace may be in use by then.
    Pass later = with(pass, pass.batch, replay_workspace_);
    capturing_->steps.emplace_back([work, later]() mutable { work(later); });
  }

  void begin_pass(const Batch& /*batch*/) override { started_.clear(); }  // left by a failed pass
  void add(TensorView x, TensorView y, Pass& pass) override {
    expect_on(device(), x, "add");
    expect_on(device(), y, "add");
    run(pass, [this, x, y](Pass& there) { cpu_->add(x, y, there); });
  }
  void gather(TensorView x,
              std::span<const std::int32_t> rows,
              TensorView picked,
              Pass& pass) override {
    expect_on(device(), x, "gather");
    expect_on(device(), picked, "gather");
    run(pass, [this, x, rows, picked](Pass& there) { cpu_->gather(x, rows, picked, there); });
  }
  bool can_sample() const override { return true; }
  void sample(TensorView logits, Pass& pass) override {
    expect_on(device(), logits, "sampling");
    run(pass, [this, logits](Pass& there) {
      const BatchSampling& sampling = there.batch.sampling;
      sampled_.clear();
      for (std::int64_t row = 0; row < logits.rows(); ++row)
        sampled_.push_back(sample_row(
            {logits.f32_row(row), static_cast<std::size_t>(logits.cols())},
            sampling.rows[static_cast<std::size_t>(row)], sampling.edits, sampling.masks));
    });
  }
  void sample_kept(const BatchSampling& sampling) override {
    test_fault().count_operation();
    const TensorView logits = kept_logits();
    expect_on(device(), logits, "sampling");
    sampled_.clear();
    for (std::size_t row = 0; row < sampling.rows.size(); ++row) {
      sampled_.push_back(sample_row(
          {logits.f32_row(static_cast<std::int64_t>(row)), static_cast<std::size_t>(logits.cols())},
          sampling.rows[row], sampling.edits, sampling.masks));
    }
  }
  void start_tokens_out(std::int64_t num_tokens) override {
    test_fault().count_operation();
    GRAFT_CHECK(tokens_out_.size() < 2, "tokens of two passes are on their way");
    sampled_.resize(static_cast<std::size_t>(num_tokens));
    tokens_out_.push_back(sampled_);
  }
  std::span<const std::int32_t> finish_tokens_out() override {
    test_fault().count_operation();
    GRAFT_CHECK(!tokens_out_.empty(), "no tokens are on their way");
    test_bytes_out() += tokens_out_.front().size() * sizeof(std::int32_t);
    finished_[num_finished_ % 2] = std::move(tokens_out_.front());
    tokens_out_.pop_front();
    return finished_[num_finished_++ % 2];
  }
  void discard_tokens() override { tokens_out_.clear(); }
  // The ids of a batch with those that the device sampled in the pass before.
  std::vector<std::int32_t> resolve(std::span<const std::int32_t> ids) const {
    std::vector<std::int32_t> resolved(ids.begin(), ids.end());
    for (std::int32_t& id : resolved) {
      if (id < 0) id = std::max(sampled_.at(static_cast<std::size_t>(-1 - id)), 0);
    }
    return resolved;
  }
  void copy_in(TensorView from, TensorView to) override {
    expect_on(kCpu, from, "a copy in");
    expect_on(device(), to, "a copy in");
    run([from, to] {
      if (from.bytes() != 0) std::memcpy(to.data, from.data, from.bytes());
    });
  }
  void start_copy_out(TensorView from, TensorView to) override {
    expect_on(device(), from, "a copy out");
    expect_on(kCpu, to, "a copy out");
    run([this, from, to] {
      if (to.bytes() != 0) std::memset(to.data, 0x7f, to.bytes());
      started_.emplace_back(from, to);
    });
  }
  void finish_copies_out() override {
    test_fault().count_operation();
    deliver_copies();
  }

  std::unique_ptr<BlockCopies> make_block_copies(const std::vector<BlockPart>& parts) override {
    return std::make_unique<TestBlockCopies>(parts);
  }

  GraphCapture* graph_capture() override { return this; }
  bool is_capturing() const override { return capturing_ != nullptr; }
  std::uint64_t memory_version() const override { return memory_version_; }
  void invalidate_graphs() { ++memory_version_; }
  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override {
    auto made = std::make_unique<Steps>();
    capturing_ = made.get();
    host_work_ = {};
    try {
      work();
      GRAFT_CHECK(host_work_ == nullptr, "a host call was not joined");
    } catch (...) {
      capturing_ = nullptr;
      throw;
    }
    capturing_ = nullptr;
    return made;
  }
  // After an error of a host call the device still executes the rest, as a GPU does.
  void replay(CapturedGraph& graph) override {
    host_error_ = nullptr;
    later_ = {};
    for (const auto& step : dynamic_cast<Steps&>(graph).steps)
      step();
    run_later_work();
    if (host_error_) std::rethrow_exception(std::exchange(host_error_, nullptr));
  }
  void host_call(const std::function<void()>& work, const std::function<void()>& later) override {
    GRAFT_CHECK(is_capturing() && host_work_ == nullptr, "a host call outside of a capture");
    host_work_ = [this, work, later] {
      run_later_work();
      run_on_host(work);
      later_ = later;
    };
    run([this] { deliver_copies(); });  // complete before the host works
  }
  void join_host_call() override {
    GRAFT_CHECK(is_capturing() && host_work_ != nullptr, "no host call to join");
    run(std::exchange(host_work_, {}));
  }

 private:
  struct Steps final : CapturedGraph {
    std::vector<std::function<void()>> steps;
  };

  void run(const std::function<void()>& work) {
    test_fault().count_operation();
    if (capturing_ == nullptr) return work();
    capturing_->steps.push_back(work);
  }

  void deliver_copies() {
    for (const auto& [from, to] : started_) {
      if (from.bytes() == 0) continue;
      std::memcpy(to.data, from.data, from.bytes());
      test_bytes_out() += from.bytes();
    }
    started_.clear();
  }

  // As late as possible: before the next host call, or at the end.
  void run_later_work() {
    if (const auto work = std::exchange(later_, {})) run_on_host(work);
  }

  // After an error later work is skipped: its inputs were not computed.
  void run_on_host(const std::function<void()>& work) {
    if (host_error_) return;
    ++test_host_calls();
    try {
      work();
    } catch (...) {
      host_error_ = std::current_exception();
    }
  }

  std::unique_ptr<DeviceContext> cpu_;
  Workspace replay_workspace_;
  std::vector<std::pair<TensorView, TensorView>> started_;  // pending copies to the host: from, to
  Steps* capturing_ = nullptr;                              // null: not capturing
  std::function<void()> host_work_;                         // of the host call not joined yet
  std::function<void()> later_;                             // of the host call replayed last
  std::vector<std::int32_t> sampled_;                       // of the last pass, on the device
  std::deque<std::vector<std::int32_t>> tokens_out_;        // on their way to the host
  std::array<std::vector<std::int32_t>, 2> finished_;
  std::size_t num_finished_ = 0;
  std::exception_ptr host_error_;  // of the replay in progress
  std::uint64_t memory_version_ = 0;
};

inline TestContext& test_context(Device device, Pass& pass) {
  return static_cast<TestContext&>(pass.devices->at(device));
}

}  // namespace graft::ops::testing
