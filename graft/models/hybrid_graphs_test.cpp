// Decode graphs of hybrid plans: everything on a device but the experts, which the host computes
// inside the replay.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/models/generate.h"
#include "graft/ops/experts/expert_store.h"
#include "graft/testing/decoding.h"
#include "graft/testing/device.h"
#include "graft/testing/golden.h"
#include "graft/testing/near_logits.h"
#include "graft/testing/placement.h"
#include "graft/testing/test_names.h"

namespace graft::models {
namespace {

using ops::testing::test_host_calls;
using testing::Decoding;
using testing::expect_near;
using testing::kDecodeSteps;
using testing::PlacedModel;

// Calls of FaultyExperts until one throws; 0: none does.
std::int64_t& fault_countdown() {
  static std::int64_t countdown = 0;
  return countdown;
}

// Rows that FaultyExperts has computed.
std::int64_t& num_expert_rows() {
  static std::int64_t count = 0;
  return count;
}

// CPU experts that count their rows and throw when fault_countdown() reaches 0.
class FaultyExperts final : public ops::Experts {
 public:
  explicit FaultyExperts(std::unique_ptr<ops::Operator> op)
      : owned_(std::move(op)), experts_(dynamic_cast<ops::Experts&>(*owned_)) {}
  void load(ops::WeightProvider& weights) override { owned_->load(weights); }
  void unload() override { owned_->unload(); }
  ops::ExpertStore host_store() const override { return experts_.host_store(); }
  void forward(const ops::Activation& x,
               ops::Routing routing,
               TensorView y,
               ops::Pass& pass) override {
    num_expert_rows() += x.rows();
    if (fault_countdown() > 0 && --fault_countdown() == 0) fail("experts: broken for a test");
    experts_.forward(x, routing, y, pass);
  }

 private:
  std::unique_ptr<ops::Operator> owned_;
  ops::Experts& experts_;
};

void add_devices(ops::Registry& registry) {
  const ops::OperatorInfo* cpu =
      registry.default_for(ops::Role::Experts, DeviceType::Cpu, ops::ExpertsParams{});
  ops::testing::add_test_devices(registry);
  ops::OperatorInfo faulty = *cpu;
  faulty.name = "faulty.experts";
  faulty.make = [cpu](const ops::BuildContext& context) {
    return std::make_unique<FaultyExperts>(cpu->make(context));
  };
  registry.add(std::move(faulty));
}

constexpr const char* kExpertsOnCpu = R"yaml(
- match: {name: "[.]experts$"}
  replace: {class: faulty.experts, kwargs: {device: cpu, out_device: "cuda:0"}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";
// One expert of each layer in a slot; prompts are streamed.
constexpr const char* kHybridExperts = R"yaml(
- match: {name: "[.]experts$"}
  replace:
    class: default
    kwargs: {generate_device: cpu, generate_op: faulty.experts, prefill_device: "cuda:0",
             gpu_experts: 1, stream_from: 64}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

class HybridGraphs : public ::testing::TestWithParam<const char*> {
 protected:
  void TearDown() override { fault_countdown() = 0; }
  static std::filesystem::path folder() { return golden_checkpoint(GetParam()); }
};

TEST_P(HybridGraphs, ReplayIsBitIdenticalToEager) {
  PlacedModel placed(folder(), kExpertsOnCpu, add_devices);
  ASSERT_EQ(placed.findings(), "");
  for (const std::int64_t num_sequences : {1, 3, 9}) {
    SCOPED_TRACE(num_sequences);
    test_host_calls() = 0;
    placed.model().enforce_eager(true);
    const auto eager = Decoding(placed.model(), num_sequences).all_steps();
    EXPECT_EQ(test_host_calls(), 0U);
    placed.model().enforce_eager(false);
    EXPECT_EQ(Decoding(placed.model(), num_sequences).all_steps(), eager);
    // The first step of a bucket is eager: it allocates what a capture may not.
    EXPECT_GE(test_host_calls(), static_cast<std::size_t>(kDecodeSteps - 1));
  }
}

// Batches are padded to the size of a graph; the CPU computes the real rows only.
TEST_P(HybridGraphs, PaddingDoesNotReachTheCpu) {
  PlacedModel placed(folder(), kExpertsOnCpu, add_devices);
  const auto rows_of_steps = [&](std::int64_t num_sequences) {
    Decoding decoding(placed.model(), num_sequences);
    num_expert_rows() = 0;
    decoding.all_steps();
    return num_expert_rows();
  };
  for (const bool is_eager : {true, false}) {
    placed.model().enforce_eager(is_eager);
    const std::int64_t rows_of_one = rows_of_steps(1);
    EXPECT_GE(rows_of_one, kDecodeSteps);
    EXPECT_EQ(rows_of_steps(9), 9 * rows_of_one) << is_eager;
  }
}

// The error of the host's work ends its pass; the same graph then replays correctly.
TEST_P(HybridGraphs, ThrowingHostWorkFailsOnlyItsPass) {
  PlacedModel placed(folder(), kExpertsOnCpu, add_devices);
  const auto want = Decoding(placed.model(), 2).all_steps();
  Decoding decoding(placed.model(), 2);
  EXPECT_EQ(decoding.step(0), want[0]);  // eager
  EXPECT_EQ(decoding.step(1), want[1]);  // captured
  for (const std::int64_t call : {1, 2}) {
    fault_countdown() = call;
    test_host_calls() = 0;
    try {
      decoding.step(2);
      ADD_FAILURE() << "the pass of a failed host call ended without an error";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "experts: broken for a test");
    }
    EXPECT_EQ(test_host_calls(), static_cast<std::size_t>(call)) << "host calls after the error";
  }
  for (std::int64_t i = 2; i < kDecodeSteps; ++i)
    EXPECT_EQ(decoding.step(i), want[static_cast<std::size_t>(i)]);
}

// The same where a device computes some experts, in decode and in prompts that are streamed in
// part.
TEST_P(HybridGraphs, ThrowingHostPartFailsOnlyItsPass) {
  PlacedModel placed(folder(), kHybridExperts, add_devices);
  ASSERT_EQ(placed.findings(), "");
  const auto want = Decoding(placed.model(), 2).all_steps();
  TokenIds prompt;
  for (std::int32_t i = 0; i < 32; ++i)
    prompt.push_back(7 * i % static_cast<std::int32_t>(placed.model().vocab_size()));
  const auto logits = [&] {
    return run_prompts(placed.model(), {&prompt, 1}, {.chunk = 0}).front().logits;
  };
  const std::vector<float> want_prompt = logits();
  for (const std::int64_t call : {1, 2, 3}) {
    SCOPED_TRACE(call);
    Decoding decoding(placed.model(), 2);
    decoding.step(0);
    fault_countdown() = call;
    EXPECT_THROW(for (int i = 1; i < kDecodeSteps; ++i) decoding.step(i), Error);
    fault_countdown() = call;
    EXPECT_THROW(logits(), Error);
    fault_countdown() = 0;
    expect_near(logits(), want_prompt);
    expect_near(Decoding(placed.model(), 2).all_steps(), want);
  }
}

// Experts alone, beside shared experts, and beside a gated shared expert.
INSTANTIATE_TEST_SUITE_P(Models,
                         HybridGraphs,
                         ::testing::Values("mixtral",
                                           "deepseek-v3",
                                           "deepseek-v3.2",
                                           "deepseek-v4",
                                           "glm5-shared",
                                           "llama4",
                                           "qwen2-moe"),
                         checkpoint_test_name);

// Host work sees what the device did before the call, and the device sees its result after the
// join.
TEST(TestContext, RunsHostWorkBetweenCallAndJoin) {
  constexpr Device kDevice = {.type = DeviceType::Cuda, .index = 0};
  const ops::Registry registry = ops::testing::with_test_devices(1);
  const auto device = registry.make_device_context(kDevice);
  ops::GraphCapture& graphs = *device->graph_capture();
  std::vector<float> host = {1, 0, 0};  // input, read by the host, written by the host
  const auto at = [&](std::size_t i) { return TensorView(&host[i], DType::F32, {1, 1}); };
  const TensorView there = device->workspace().f32({1, 1});
  float result = 0;
  const auto graph = graphs.capture([&] {
    device->copy_in(at(0), there);
    device->start_copy_out(there, at(1));
    graphs.host_call([&] { host[2] = host[1] + 10; }, {});
    device->copy_in(at(2), there);  // before the join: not the result yet
    graphs.join_host_call();
    device->copy_in(at(2), there);
    device->start_copy_out(there, TensorView(&result, DType::F32, {1, 1}));
  });
  EXPECT_EQ(host[2], 0) << "host work runs at the replay, not at the capture";
  for (const float value : {1.0F, 2.0F}) {
    host[0] = value;
    graphs.replay(*graph);
    device->finish_copies_out();
    EXPECT_EQ(result, value + 10);
  }
}

}  // namespace
}  // namespace graft::models
