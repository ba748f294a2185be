// Predicted memory (perf::memory_use) against what test devices allocate: weights and KV cache to
// the byte, the workspace within its growth by doubling.

#include "graft/perf/memory.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/out_of_memory.h"
#include "graft/models/open_model.h"
#include "graft/ops/devices/cuda_operators.h"
#include "graft/ops/params.h"
#include "graft/packing/packed_cache.h"
#include "graft/testing/device.h"
#include "graft/testing/formats.h"
#include "graft/testing/golden.h"

namespace graft::models {
namespace {

using ops::testing::test_memory;

constexpr const char* kDeviceOnly = R"yaml(
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";
constexpr const char* kTwoDevices = R"yaml(
- match: {name: "[.]experts$"}
  replace: {class: experts, kwargs: {device: cpu, out_device: "cuda:0"}}
- match: {name: "^model$"}
  replace: {class: model, kwargs: {transfer_map: {2: "cuda:1"}}}
- match: {name: "^(model[.]layers[.][2-9]|model[.]norm|lm_head)"}
  replace: {class: default, kwargs: {device: "cuda:1"}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";
// A second copy of the dense layers for prefill.
constexpr const char* kPrefillElsewhere = R"yaml(
- match: {role: linear}
  replace: {class: default, kwargs: {generate_device: "cuda:0", prefill_device: "cuda:1"}}
- match: {name: ".*"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
)yaml";

constexpr perf::Workload kNothing = {.context = 0, .parallel = 0, .prefill_tokens = 0};
constexpr Device kGpus[] = {{DeviceType::Cuda, 0}, {DeviceType::Cuda, 1}};

OpenOptions options(const std::string& rules) {
  OpenOptions options;
  options.rules = rules;
  options.machine.num_gpus = 2;
  options.operators = ops::testing::with_test_devices;
  options.num_threads = 2;
  return options;
}

struct Case {
  const char* name;
  const char* checkpoint;
  const char* rules;
};

class DeviceMemoryUse : public ::testing::TestWithParam<Case> {
 protected:
  static std::uint64_t allocated(Device device) { return test_memory().allocated(device.index); }
};

TEST_P(DeviceMemoryUse, IsAsPredicted) {
  for (const Device gpu : kGpus)
    ASSERT_EQ(allocated(gpu), 0U);
  OpenModel open(golden_checkpoint(GetParam().checkpoint), options(GetParam().rules));
  auto weights = perf::memory_use(open.plan(), kNothing);
  for (const Device gpu : kGpus)
    EXPECT_EQ(allocated(gpu), weights[gpu].weights) << to_string(gpu);

  constexpr std::int64_t kBlocks = 10;
  open.model().allocate_cache(kBlocks);
  const std::int64_t context = kBlocks * open.model().block_tokens();
  auto cached = perf::memory_use(open.plan(), {.context = context, .parallel = 1});
  for (const Device gpu : kGpus)
    EXPECT_EQ(allocated(gpu), cached[gpu].weights + cached[gpu].kv_cache) << to_string(gpu);
}

// Prefill copies the keys and values of a quantized cache to F16, up to a limit.
TEST(QuantizedCacheMemory, CountsTheCopiesForPrefill) {
  const auto workspace = [](const std::string& dtype, std::int64_t context) {
    OpenOptions with_type = options(kDeviceOnly);
    with_type.kv_cache_dtype = dtype;
    const OpenModel open(golden_checkpoint("llama"), with_type);
    const perf::Workload load = {.context = context, .parallel = 1, .prefill_tokens = 16};
    return perf::memory_use(open.plan(), load).at(kGpus[0]).workspace;
  };
  const OpenModel open(golden_checkpoint("llama"), options(kDeviceOnly));
  const auto& cache = std::get<ops::KvCacheParams>(
      open.plan().at("model.layers.0.self_attn.kv_cache").module->params);
  const auto row_bytes = static_cast<std::uint64_t>(2 * (cache.key_size + cache.value_size));
  for (const char* dtype : {"fp8", "q8_0"}) {
    EXPECT_EQ(workspace(dtype, 1000) - workspace("f16", 1000), 1000 * row_bytes) << dtype;
    EXPECT_EQ(workspace(dtype, 100'000'000) - workspace("f16", 100'000'000),
              ops::kGatheredHeadBytes)
        << dtype;
  }
}

INSTANTIATE_TEST_SUITE_P(Models,
                         DeviceMemoryUse,
                         ::testing::Values(Case{"Llama", "llama", kDeviceOnly},
                                           Case{"LlamaOnTwo", "llama", kTwoDevices},
                                           Case{"LlamaPrefillElsewhere", "llama",
                                                kPrefillElsewhere},
                                           Case{"Qwen3MoeOnTwo", "qwen3-moe", kTwoDevices},
                                           Case{"Qwen2Moe", "qwen2-moe", kDeviceOnly},
                                           Case{"Mixtral", "mixtral", kDeviceOnly},
                                           Case{"DeepSeekV2Lite", "deepseek-v2-lite", kDeviceOnly},
                                           Case{"DeepSeekV3OnTwo", "deepseek-v3", kTwoDevices},
                                           Case{"DeepSeekV32OnTwo", "deepseek-v3.2", kTwoDevices},
                                           Case{"DeepSeekV4OnTwo", "deepseek-v4", kTwoDevices},
                                           Case{"Glm5SharedOnTwo", "glm5-shared", kTwoDevices},
                                           Case{"Llama4", "llama4", kDeviceOnly}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(DeviceMemoryCheck, RefusesWithTheNumbersBeforeLoading) {
  test_memory().set_capacity(10'000);
  const auto load = [] { OpenModel(golden_checkpoint("llama"), options(kDeviceOnly)); };
  EXPECT_THROW(load(), OutOfMemory);
  EXPECT_NE(formats::test::error_of(load).find("which has 9.8 KiB free"), std::string::npos);
  EXPECT_EQ(test_memory().allocated(0), 0U);
  test_memory().set_capacity(std::uint64_t{1} << 30U);
}

// The panels of the cache file are what would be allocated in memory.
TEST(HostMemoryUse, OfPackedWeightsIsAsPredicted) {
  const TempDir folder;
  const std::filesystem::path model = folder / "model.gguf";
  std::filesystem::copy_file(
      std::filesystem::path(GRAFT_SOURCE_DIR) / "models/sprout/sprout-Q6_K.gguf", model);
  OpenOptions options;
  options.num_threads = 2;
  options.load.repack_cache = true;
  const OpenModel open(model, options);
  const MappedFile file(packing::PackedCache::path_for(open.source()));
  std::uint64_t panels = 0;
  for (const packing::PackedTensor& tensor : packing::parse_packed(file.bytes(), "file").tensors)
    panels += tensor.bytes.size();
  const auto in_memory = perf::memory_use(open.plan(), kNothing).at(kCpu);
  const auto on_disk = perf::memory_use(open.plan(), kNothing, {.from_disk = true}).at(kCpu);
  EXPECT_EQ(in_memory.allocated() - on_disk.allocated(), panels);
  EXPECT_EQ(in_memory.weights, on_disk.weights);
}

}  // namespace
}  // namespace graft::models
