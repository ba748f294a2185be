// Compares estimates with values computed by hand for a model of one linear, one attention with its
// KV cache, and a head.

#include "graft/perf/estimate.h"

#include <cstddef>
#include <cstdint>
#include <variant>

#include <gtest/gtest.h>

#include "graft/base/text/str.h"
#include "graft/perf/achieved.h"
#include "graft/perf/gpu_experts.h"
#include "graft/perf/memory.h"

namespace graft::perf {
using namespace plan;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::int64_t kSize = 1000;
constexpr Device kGpu = {.type = DeviceType::Cuda, .index = 0};

plan::ModuleSpec linear(const std::string& name) {
  plan::ModuleSpec module;
  module.name = name;
  module.class_name = "Linear";
  module.role = ops::Role::Linear;
  module.params = ops::LinearParams{.in_features = kSize, .out_features = kSize};
  module.weights = {{.name = name + ".weight", .shape = {kSize, kSize}, .dtype = DType::BF16}};
  return module;
}

// 2 MB of weights in each linear; 100 + 100 cached values per token; 4 * 10 * 10 flop per token and
// cached token. The norm gives the hidden states their size and has no weights.
plan::Blueprint small_model() {
  plan::Blueprint blueprint;
  blueprint.family = "llama";
  blueprint.vocab_size = kSize;
  blueprint.root.class_name = "Root";
  blueprint.root.role = ops::Role::Model;
  plan::ModuleSpec attention;
  attention.name = "attn";
  attention.class_name = "Attention";
  attention.role = ops::Role::Attention;
  attention.params =
      ops::AttentionParams{.num_heads = 10, .num_key_value_heads = 10, .head_dim = 10};
  plan::ModuleSpec cache;
  cache.name = "attn.kv_cache";
  cache.class_name = "KvCache";
  cache.role = ops::Role::KvCache;
  cache.params = ops::KvCacheParams{.key_size = 100, .value_size = 100};
  attention.children.push_back(cache);
  plan::ModuleSpec norm;
  norm.name = "norm";
  norm.class_name = "Norm";
  norm.role = ops::Role::Norm;
  norm.params = ops::NormParams{.size = kSize};
  blueprint.root.children = {linear("up"), attention, norm, linear("lm_head")};
  return blueprint;
}

// The same with routed experts: 4 of 1 MB each, 2 per token.
plan::Blueprint model_with_experts() {
  plan::Blueprint blueprint = small_model();
  plan::ModuleSpec experts;
  experts.name = "mlp.experts";
  experts.class_name = "Experts";
  experts.role = ops::Role::Experts;
  experts.params = ops::ExpertsParams{
      .num_experts = 4, .top_k = 2, .hidden_size = kSize, .intermediate_size = 500};
  experts.weights = {
      {.name = "mlp.experts.weight", .shape = {4 * 500, kSize}, .dtype = DType::BF16}};
  blueprint.root.children.push_back(experts);
  blueprint.expert_share = 0.5;
  return blueprint;
}

// Weights are read at 1 GB/s and multiplied at 1 TFLOP/s: a single row is memory-bound.
MachineFigures slow_memory() {
  MachineFigures machine;
  machine.cpu = {.threads = 1,
                 .dram_bytes = 1'000'000'000,
                 .read_bytes_per_s = 1e9 / kCpuReadShare,
                 .flops = 1e12};
  return machine;
}

class EstimateTest : public testing::Test {
 protected:
  Estimate of(const std::string& rules, const MachineFigures& machine, const Workload& load) {
    std::vector<Finding> findings;
    rules_ = parse_rules(rules, "r.yaml", findings);
    const Machine devices = {.num_gpus = static_cast<int>(machine.gpus.size()), .plan_only = true};
    planned_ = make_plan(blueprint_, rules_, registry_, devices);
    findings.insert(findings.end(), planned_.findings.begin(), planned_.findings.end());
    EXPECT_FALSE(has_errors(findings)) << findings_text(findings);
    set_stream_from(planned_.plan, machine);
    return estimate(planned_.plan, machine, load);
  }
  void use(plan::Blueprint blueprint) { blueprint_ = std::move(blueprint); }
  const plan::Plan& plan() const { return planned_.plan; }
  plan::Plan& changeable_plan() { return planned_.plan; }

 private:
  plan::Blueprint blueprint_ = small_model();
  ops::Registry registry_ = ops::builtin_operators();
  plan::RuleFile rules_;
  plan::PlanResult planned_;
};

constexpr std::string_view kAllOnCpu =
    "- {match: {name: .*}, replace: {class: default, kwargs: {device: cpu}}}\n";

TEST_F(EstimateTest, DecodeReadsAllWeightsAndTheContext) {
  const Estimate got = of(std::string(kAllOnCpu), slow_memory(),
                          {.context = 100, .parallel = 1, .prefill_tokens = 10});
  // 4 MB of weights, 2 flop for each of 2 million, 100 tokens of 400 bytes and 400 flop.
  EXPECT_NEAR(1 / got.decode.tokens_per_s, 4e-3 + 4e-6 + 40e-6 + 40e-9, 1e-9);
  EXPECT_EQ(got.decode.limit, "cpu memory (99 % of the time)");
}

TEST_F(EstimateTest, SequencesShareTheWeights) {
  const Workload one = {.context = 0, .parallel = 1, .prefill_tokens = 10};
  const Workload eight = {.context = 0, .parallel = 8, .prefill_tokens = 10};
  const double single = of(std::string(kAllOnCpu), slow_memory(), one).decode.tokens_per_s;
  const double batched = of(std::string(kAllOnCpu), slow_memory(), eight).decode.tokens_per_s;
  EXPECT_NEAR(8 / batched - 1 / single, 7 * 4e-6, 1e-9);
}

TEST_F(EstimateTest, PrefillComputesTheHeadOnce) {
  MachineFigures machine = slow_memory();
  machine.cpu.flops = 1e9;
  const Estimate got =
      of(std::string(kAllOnCpu), machine, {.context = 0, .parallel = 1, .prefill_tokens = 1000});
  // 2 flop per weight and token; the head runs for one token, and reading both matrices takes 2 ms
  // each. A token attends to half the prompt on average, and the prompt's KV is read once.
  EXPECT_NEAR(1000 / got.prefill.tokens_per_s, 2.0 + 2e-3 + 4e-3 + 0.2 + 200e-6, 1e-6);
  EXPECT_EQ(got.prefill.limit, "cpu arithmetic (91 % of the time)");
}

// Without measured rates.
TEST_F(EstimateTest, QuantizedWeightsAreMultipliedInInt8) {
  plan::Blueprint blueprint = small_model();
  for (plan::ModuleSpec& module : blueprint.root.children) {
    for (plan::WeightSpec& weight : module.weights)
      weight = {.name = weight.name, .shape = {1024, 1024}, .dtype = DType::Q4_K};
  }
  use(std::move(blueprint));
  MachineFigures machine = slow_memory();
  machine.cpu.flops = 1e9;
  const Estimate got =
      of(std::string(kAllOnCpu), machine, {.context = 0, .parallel = 1, .prefill_tokens = 10});
  const double weights = 2.0 * 1024 * 1024;
  EXPECT_NEAR(got.decode.seconds.at("cpu arithmetic"), 2 * weights / (kCpuInt8Factor * 1e9), 1e-9);
  EXPECT_NEAR(got.decode.seconds.at("cpu memory"), weights * 144 / 256 / 1e9, 1e-9);
}

TEST_F(EstimateTest, MeasuredRatesOfATypeOverrideMachineLimits) {
  MachineFigures machine = slow_memory();
  machine.cpu_rates[DType::BF16] = {.read_bytes_per_s = 0.5e9, .flops = 1e12};
  const Estimate got =
      of(std::string(kAllOnCpu), machine, {.context = 0, .parallel = 1, .prefill_tokens = 10});
  EXPECT_NEAR(1 / got.decode.tokens_per_s, 8e-3 + 4e-6, 1e-9);
  EXPECT_EQ(got.decode.limit, "cpu weights of BF16 (100 % of the time)");
}

TEST_F(EstimateTest, EveryOperatorCostsACall) {
  MachineFigures machine = slow_memory();
  machine.cpu.call_seconds = 1e-3;
  const Estimate got =
      of(std::string(kAllOnCpu), machine, {.context = 0, .parallel = 1, .prefill_tokens = 10});
  // Two linears and the attention.
  EXPECT_NEAR(got.decode.seconds.at("cpu calls"), 3e-3, 1e-9);
}

MachineFigures with_gpu() {
  MachineFigures machine = slow_memory();
  machine.gpus.push_back({.name = "gpu",
                          .vram_bytes = 1'000'000'000,
                          .read_bytes_per_s = 100e9,
                          .flops = 1e14,
                          .pcie_bytes_per_s = 10e9});
  return machine;
}

TEST_F(EstimateTest, KernelsCostALaunchAndALatencyInDecode) {
  const std::string rules =
      "- {match: {name: .*}, replace: {class: default, kwargs: {device: cuda}}}\n";
  const Workload load = {.context = 0, .parallel = 1, .prefill_tokens = 10};
  MachineFigures machine = with_gpu();
  const Estimate without = of(rules, machine, load);
  // Two linears, and three kernels of the attention.
  EXPECT_NEAR(without.decode.seconds.at("cuda:0 launches"), 5 * kGpuLatencySeconds, 1e-12);
  machine.gpus[0].launch_seconds = 2e-6;
  const Estimate got = of(rules, machine, load);
  EXPECT_NEAR(got.decode.seconds.at("cuda:0 launches"), 5 * (kGpuLatencySeconds + 2e-6), 1e-12);
  EXPECT_FALSE(got.prefill.seconds.contains("cuda:0 launches"));
  EXPECT_EQ(got.prefill.tokens_per_s, without.prefill.tokens_per_s);
}

// The hidden states return from the GPU for the head.
TEST_F(EstimateTest, CopiesToTheHostHaveTheirOwnRate) {
  const std::string rules = str(
      "- {match: {name: ^up$}, replace: {class: default, kwargs: {device: cuda}}}\n", kAllOnCpu);
  const Workload load = {.context = 0, .parallel = 1, .prefill_tokens = 1000};
  MachineFigures machine = with_gpu();
  const double same = of(rules, machine, load).prefill.seconds.at("pcie");
  machine.gpus[0].pcie_back_bytes_per_s = 5e9;
  const double slower = of(rules, machine, load).prefill.seconds.at("pcie");
  // 1,000 tokens of 4,000 bytes.
  EXPECT_NEAR(slower - same, 4e6 / 5e9 - 4e6 / 10e9, 1e-9);
}

// GPUs multiply these types from panels; with f32 arithmetic they keep the stored rows.
TEST_F(EstimateTest, CountsPanelsOnAGpu) {
  plan::Blueprint blueprint = small_model();
  blueprint.root.children.front().weights.front() = {
      .name = "up.weight", .shape = {1024, 1024}, .dtype = DType::Q4_K};
  use(std::move(blueprint));
  const auto gpu_weights = [&](const std::string& kwargs) {
    const std::string rules =
        str("- {match: {name: ^up$}, replace: {class: default, kwargs: {device: cuda", kwargs,
            "}}}\n", kAllOnCpu);
    const Workload load = {.context = 0, .parallel = 1, .prefill_tokens = 10};
    return of(rules, with_gpu(), load).devices.at(kGpu).weights;
  };
  EXPECT_EQ(gpu_weights(""), 1024U * 4U * 148U);
  EXPECT_EQ(gpu_weights(", precision: f32"), 1024U * 4U * 144U);
}

TEST_F(EstimateTest, CountsBytesPerDevice) {
  MachineFigures machine = slow_memory();
  machine.gpus.push_back({.name = "gpu",
                          .vram_bytes = 3'000'000,
                          .read_bytes_per_s = 100e9,
                          .flops = 1e14,
                          .pcie_bytes_per_s = 10e9});
  const Workload load = {.context = 50, .parallel = 2, .prefill_tokens = 10};
  const std::string rules = str(
      "- {match: {name: ^up$}, replace: {class: default, kwargs: {generate_device: cpu, "
      "prefill_device: cuda}}}\n"
      "- {match: {role: kv_cache}, replace: {class: default, kwargs: {device: cpu, dtype: f32}}}\n",
      kAllOnCpu);
  const Estimate got = of(rules, machine, load);
  const MemoryUse& cpu = got.devices.at(kCpu);
  const MemoryUse& gpu = got.devices.at({DeviceType::Cuda, 0});
  EXPECT_EQ(cpu.weights, 4'000'000U);
  EXPECT_EQ(gpu.weights, 2'000'000U);  // the copy for prefill
  EXPECT_EQ(cpu.kv_cache, 50U * 2U * 200U * 4U);
  Workload with_tier = load;
  with_tier.host_tier = 1000;
  EXPECT_EQ(of(rules, machine, with_tier).devices.at(kCpu).kv_cache, cpu.kv_cache + 1000);
  EXPECT_TRUE(got.fits());
  EXPECT_GT(got.prefill.seconds.at("pcie"), 0.0);
  EXPECT_FALSE(got.decode.seconds.contains("pcie"));

  EXPECT_EQ(shortage_text(got), "");

  machine.gpus[0].vram_bytes = 1'500'000;
  const Estimate short_of_memory = of(rules, machine, load);
  EXPECT_FALSE(short_of_memory.fits());
  EXPECT_EQ(shortage_text(short_of_memory), "cuda:0 needs 1.9 MiB, has 1.4 MiB");
}

// A GPU that computes in no time behind 1 GB/s of PCIe, and a CPU that multiplies a token's experts
// in 5 ms and reads fast: 4 MB of experts cross in 4 ms, as long as the CPU takes for less than a
// token.
class StreamedEstimate : public EstimateTest {
 protected:
  void SetUp() override {
    use(model_with_experts());
    machine_ = slow_memory();
    machine_.cpu.read_bytes_per_s = 1e12;
    machine_.cpu.flops = 4e8;
    machine_.gpus = {{.name = "test",
                      .vram_bytes = 1'000'000'000,
                      .read_bytes_per_s = 1e15,
                      .flops = 1e18,
                      .pcie_bytes_per_s = 1e9}};
  }
  static std::string rules(const std::string& kwargs) {
    return str(
        "- {match: {role: experts}, replace: {class: experts, kwargs: {generate_device: cpu, ",
        "prefill_device: cuda", kwargs, "}}}\n",
        "- {match: {name: .*}, replace: {class: default, kwargs: {device: cuda}}}\n");
  }

  MachineFigures machine_;
};

TEST_F(StreamedEstimate, CrossesPcieOncePerPass) {
  const Estimate got = of(rules(""), machine_, {.prefill_tokens = 1000});
  EXPECT_EQ(stream_break_even(plan(), machine_), 16);  // the smallest that is tried
  EXPECT_EQ(plan::stream_from(plan()), 16);
  EXPECT_NEAR(1000 / got.prefill.tokens_per_s, 4e-3, 1e-4);
  EXPECT_EQ(got.prefill.limit, "pcie (100 % of the time)");
  // Weights of the experts are in host memory only.
  EXPECT_EQ(got.devices.at(kCpu).weights, 4'000'000U);
}

TEST_F(StreamedEstimate, ShortPassesRunOnTheCpu) {
  const Estimate got = of(rules(", stream_from: 2000"), machine_, {.prefill_tokens = 1000});
  EXPECT_EQ(plan::stream_from(plan()), 2000);
  EXPECT_EQ(got.prefill.limit.substr(0, 14), "cpu arithmetic");
}

TEST_F(StreamedEstimate, BreakEvenFollowsTheMachine) {
  machine_.cpu.flops = 2e10;
  of(rules(""), machine_, {});
  const std::int64_t tokens = stream_break_even(plan(), machine_);
  EXPECT_GT(tokens, 16);
  machine_.gpus[0].pcie_bytes_per_s = 5e8;
  EXPECT_GT(stream_break_even(plan(), machine_), tokens);
}

// At stream_from tokens the CPU and the stream take equally long: each computes half of the
// experts.
TEST_F(StreamedEstimate, TheCpuAndTheStreamShareMediumPasses) {
  machine_.cpu.flops = 1.6e10;
  machine_.cpu.read_bytes_per_s = 1e12;
  machine_.gpus[0].pcie_back_bytes_per_s = 1e12;
  of(rules(""), machine_, {});
  const std::int64_t from = plan::stream_from(plan());
  ASSERT_EQ(from, 32);
  const auto seconds = [&](std::int64_t tokens) {
    return static_cast<double>(tokens) /
           of(rules(""), machine_, {.prefill_tokens = tokens}).prefill.tokens_per_s;
  };
  // 4 MB at 1 GB/s, beside copies of the rows.
  EXPECT_NEAR(seconds(from), 2.2e-3, 0.2e-3);
  EXPECT_NEAR(seconds(8 * from), 4e-3, 0.1e-3);
  EXPECT_NEAR(seconds(from / 8), 4e-3 / 8, 0.1e-3);
  // Never slower than streaming everything.
  for (std::int64_t tokens = from / 3; tokens < 4 * from; tokens += 4)
    EXPECT_LT(seconds(tokens), 4.1e-3) << tokens;
}

TEST_F(StreamedEstimate, CopiesOnTheGpuTakeWorkFromTheCpu) {
  const Workload load = {.context = 0, .parallel = 1, .prefill_tokens = 1000};
  const Estimate without = of(rules(""), machine_, load);
  const Estimate got = of(rules(", gpu_experts: 3"), machine_, load);
  // 1 of 4 experts is left to the CPU: 5 ms become 1.25 ms, and two copies of a row.
  EXPECT_NEAR(1 / without.decode.tokens_per_s, 5e-3, 0.1e-3);
  EXPECT_NEAR(1 / got.decode.tokens_per_s, 1.25e-3, 0.1e-3);
  // Copies do not cross PCIe.
  EXPECT_NEAR(1000 / without.prefill.tokens_per_s, 4e-3, 0.1e-3);
  EXPECT_NEAR(1000 / got.prefill.tokens_per_s, 1e-3, 0.1e-3);
  EXPECT_EQ(got.devices.at(kCpu).weights, 4'000'000U);
  EXPECT_EQ(got.devices.at(kGpu).weights, without.devices.at(kGpu).weights + 3'000'000U);
}

// Deferred experts run beside the GPU, and what the GPU does not cover is added.
// The same copies, when others are used less.
TEST_F(StreamedEstimate, CountsTheRoutingThatCopiesServe) {
  const Workload even = {.context = 0, .parallel = 1, .prefill_tokens = 1000};
  const Estimate before = of(rules(", gpu_experts: 1"), machine_, even);
  EXPECT_EQ(before.hit_rate, 0.25);
  EXPECT_NEAR(before.prefill.streamed_bytes, 3e6, 1e3);
  EXPECT_EQ(before.decode.streamed_bytes, 0);
  const std::map<std::string, std::vector<std::uint64_t>> pairs = {{"mlp.experts", {10, 0, 90, 0}}};
  Workload skewed = even;
  skewed.hit_rate = hit_rate(plan(), pairs);
  EXPECT_EQ(skewed.hit_rate, 0.9);
  const Estimate after = estimate(plan(), machine_, skewed);
  EXPECT_EQ(after.hit_rate, 0.9);
  EXPECT_NEAR(1 / after.decode.tokens_per_s, 0.1 * 5e-3, 0.1e-3);
  EXPECT_NEAR(after.prefill.streamed_bytes, 0.4e6, 1e3);
  EXPECT_EQ(hit_rate(plan(), {}), 0);
}

TEST_F(StreamedEstimate, DeferredExpertsRunBesideTheGpu) {
  const Workload load = {.context = 0, .parallel = 1, .prefill_tokens = 1000};
  const auto step = [&](double gpu_bytes_per_s, const char* defer) {
    machine_.gpus[0].read_bytes_per_s = gpu_bytes_per_s;
    of(rules(""), machine_, load);
    for (plan::Placement& placement : changeable_plan().placements) {
      if (placement.module->role == ops::Role::Experts) placement.kwargs["defer"] = defer;
    }
    return 1 / estimate(plan(), machine_, load).decode.tokens_per_s;
  };
  const double cpu = step(1e12, "0");  // the GPU takes next to nothing
  EXPECT_NEAR(step(1e12, "1"), cpu, 0.1e-3);
  const double gpu = step(4e8, "0") - cpu;
  EXPECT_NEAR(gpu, 4e6 / (kGpuReadShare * 4e8), 0.1e-3);
  EXPECT_NEAR(step(4e8, "1"), gpu + cpu / 2, 0.1e-3);
}

TEST_F(StreamedEstimate, TheSlowerOfCpuAndGpuCounts) {
  machine_.gpus[0].read_bytes_per_s = 1e8;  // 10 times slower than the CPU
  const Workload load = {.context = 0, .parallel = 1, .prefill_tokens = 1};
  const Estimate got = of(rules(", gpu_experts: 2"), machine_, load);
  EXPECT_EQ(got.decode.limit.substr(0, 13), "cuda:0 memory");
  EXPECT_FALSE(got.decode.seconds.contains("cpu arithmetic"));
}

TEST_F(StreamedEstimate, AutoFillsTheFreeGpuMemory) {
  const Workload load = {.context = 100, .parallel = 1, .prefill_tokens = 10};
  const auto resolved = [&](double left) {
    const Estimate none = of(rules(""), machine_, load);
    machine_.gpus[0].vram_bytes = static_cast<std::uint64_t>(
        (static_cast<double>(none.devices.at(kGpu).total()) + left) / kUsableShare);
    of(rules(", gpu_experts: auto"), machine_, load);
    resolve_gpu_experts(changeable_plan(), machine_, load);
    EXPECT_TRUE(estimate(plan(), machine_, load).fits());
    return plan::gpu_experts(plan().at("mlp.experts"));
  };
  EXPECT_EQ(resolved(-0.5e6), 0);
  EXPECT_EQ(resolved(0.9e6), 0);
  EXPECT_EQ(plan().at("mlp.experts").kwargs.at("gpu_experts"), "0");
  EXPECT_EQ(resolved(2.1e6), 2);
  EXPECT_EQ(plan().at("mlp.experts").kwargs.at("gpu_experts"), "2");
  EXPECT_EQ(resolved(50e6), 4);
}

// Dense weights of 4 MB, experts of 4 MB of which a token uses 2 MB, a disk of 0.5 GB/s.
class FromDiskEstimate : public EstimateTest {
 protected:
  FromDiskEstimate() { use(model_with_experts()); }

  Estimate with_memory(std::uint64_t dram_bytes) {
    MachineFigures machine = slow_memory();
    machine.cpu.dram_bytes = dram_bytes;
    machine.disk.read_bytes_per_s = 0.5e9;
    const Workload load = {.context = 100, .parallel = 1, .prefill_tokens = 10};
    in_memory_ = of(std::string(kAllOnCpu), machine, load);
    return estimate_from_disk(plan(), machine, load);
  }

  Estimate in_memory_;
};

TEST_F(FromDiskEstimate, ReadsTheExpertsThatAreNotInMemory) {
  const Estimate got = with_memory(7'000'000);
  const MemoryUse& cpu = got.devices.at(kCpu);
  EXPECT_FALSE(got.fits());
  EXPECT_TRUE(got.can_run());
  EXPECT_EQ(cpu.mapped, 8'000'000U);
  const double room = static_cast<double>(cpu.capacity - cpu.allocated());
  const double seconds = 2e6 * (1 - (room - 4e6) / 4e6) / 0.5e9;
  EXPECT_NEAR(got.decode.seconds.at("disk"), seconds, 1e-9);
  EXPECT_NEAR(1 / got.decode.tokens_per_s, 1 / in_memory_.decode.tokens_per_s + seconds, 1e-9);
}

TEST_F(FromDiskEstimate, ReadsEverythingWhenDenseWeightsDoNotFit) {
  const Estimate got = with_memory(3'000'000);
  EXPECT_NEAR(got.decode.seconds.at("disk"), 12e-3, 1e-9);
  EXPECT_EQ(got.decode.limit, "disk (66 % of the time)");
  EXPECT_GT(got.prefill.seconds.at("disk"), 12e-3);  // more experts are used
}

TEST_F(FromDiskEstimate, IsTheSameWhenAllFits) {
  const Estimate got = with_memory(100'000'000);
  EXPECT_TRUE(got.fits());
  EXPECT_EQ(got.decode.tokens_per_s, in_memory_.decode.tokens_per_s);
  EXPECT_FALSE(got.decode.seconds.contains("disk"));
}

TEST_F(FromDiskEstimate, NeedsMemoryForWhatIsAllocated) {
  EXPECT_FALSE(with_memory(100'000).can_run());
}

// Blocks out of the window are freed, where no layer reads them.
TEST(Workload, SequencesOfModelsWithWindowsKeepTheWindowAndAChunk) {
  plan::Blueprint blueprint = small_model();
  const auto params_of = [&](std::size_t layer) -> ops::AttentionParams& {
    return std::get<ops::AttentionParams>(blueprint.root.children[layer].params);
  };
  const Workload load = {.context = 10'000, .parallel = 2, .prefill_tokens = 100};
  EXPECT_EQ(cached_tokens_of(blueprint, load), 10'000);
  params_of(1).sliding_window = 512;
  EXPECT_EQ(blueprint.attention_window(), 512);
  EXPECT_EQ(cached_tokens_of(blueprint, load), 612);
  EXPECT_EQ(cached_tokens_of(blueprint, {.context = 400, .prefill_tokens = 100}), 400);
  // A second layer with a larger window, in chunks, and with none.
  blueprint.root.children.push_back(blueprint.root.children[1]);
  const std::size_t last = blueprint.root.children.size() - 1;
  params_of(last) = {.sliding_window = 0, .chunk = 800};
  EXPECT_EQ(blueprint.attention_window(), 800);
  params_of(last).chunk = 0;
  EXPECT_EQ(blueprint.attention_window(), 0);
  EXPECT_EQ(cached_tokens_of(blueprint, load), 10'000);
}

}  // namespace
}  // namespace graft::perf
