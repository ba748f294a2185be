// Models of the pool that compete for the memory of a test device. Each takes 600 of its 1000
// bytes, so that only one fits.

#include "graft/server/models/model_pool.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/out_of_memory.h"
#include "graft/server/api_error.h"
#include "graft/tensor/buffer.h"
#include "graft/testing/device.h"
#include "graft/testing/golden.h"

namespace graft::server {
namespace {

constexpr Device kGpu = {.type = DeviceType::Cuda, .index = 0};

// A model on the CPU that also holds memory of the test device.
struct ModelWithVram {
  ModelWithVram(std::size_t bytes, const ModelInfo& info, const api::LlmConfig& config)
      : vram(bytes, kGpu), model(info, config, "") {}

  Buffer vram;
  LoadedModel model;
};

class ModelPoolTest : public testing::Test {
 protected:
  ModelPoolTest() {
    set_device_memory(DeviceType::Cuda, &ops::testing::test_memory());
    ops::testing::test_memory().set_capacity(1000);
  }
  ~ModelPoolTest() override { ops::testing::test_memory().set_capacity(std::uint64_t{1} << 30U); }

  PoolConfig config(std::size_t vram_bytes) const {
    const std::filesystem::path path = golden_checkpoint("llama");
    PoolConfig config;
    config.models = {{.name = "a", .path = path}, {.name = "b", .path = path}};
    config.models.push_back({.name = "c", .path = path});
    config.llm.num_threads = 1;
    config.llm.device = "cpu";
    config.llm.memory = std::uint64_t{64} << 20U;
    config.load = [vram_bytes](const ModelInfo& info, const api::LlmConfig& llm) {
      auto made = std::make_shared<ModelWithVram>(vram_bytes, info, llm);
      return std::shared_ptr<LoadedModel>(made, &made->model);
    };
    return config;
  }

  // Waits for the model; null and `error_` when it cannot be loaded.
  Lease acquire(ModelPool& pool, const std::string& name) {
    std::mutex mutex;
    std::condition_variable done;
    bool is_done = false;
    Lease result;
    const auto finish = [&](Lease lease, const std::string& error) {
      const std::lock_guard lock(mutex);
      result = std::move(lease);
      error_ = error;
      is_done = true;
      done.notify_all();
    };
    pool.acquire(
        name, [&](Lease lease) { finish(std::move(lease), ""); },
        [&](const std::string& error) { finish(nullptr, error); });
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return is_done; });
    return result;
  }

  static std::vector<std::string> loaded(const ModelPool& pool) {
    std::vector<std::string> names;
    for (const ModelPool::Loaded& model : pool.loaded())
      names.push_back(model.lease->name());
    return names;
  }

  static void run(const std::function<void()>& task) { task(); }

  std::string error_;
};

TEST_F(ModelPoolTest, EvictsAnIdleModelWhenGpuMemoryIsShort) {
  ModelPool pool(config(600), run);
  ASSERT_NE(acquire(pool, "a"), nullptr) << error_;
  EXPECT_EQ(loaded(pool), std::vector<std::string>{"a"});
  ASSERT_NE(acquire(pool, "b"), nullptr) << error_;
  EXPECT_EQ(loaded(pool), std::vector<std::string>{"b"});
}

TEST_F(ModelPoolTest, AddsAndRemovesModelsWhileOthersRun) {
  ModelPool pool(config(400), run);
  const std::filesystem::path path = golden_checkpoint("llama");
  const Lease used = acquire(pool, "a");
  ASSERT_NE(used, nullptr) << error_;
  pool.put({.name = "user/new:latest", .path = path});
  EXPECT_EQ(pool.names(), (std::vector<std::string>{"a", "b", "c", "user/new:latest"}));
  EXPECT_EQ(pool.resolve("User/New"), "user/new:latest");
  ASSERT_NE(acquire(pool, "user/new"), nullptr) << error_;
  pool.remove("user/new:latest");
  EXPECT_THROW(pool.resolve("user/new"), ApiError);
  EXPECT_THROW(pool.remove("user/new:latest"), ApiError);
  // A model in use is removed for new requests only.
  pool.remove("a");
  EXPECT_EQ(pool.resolve(""), "b");
  EXPECT_EQ(used->name(), "a");
  EXPECT_TRUE(used->llm().failure().empty());
  // Replaced in its place, and loaded again.
  const std::uint64_t serial = acquire(pool, "b")->serial();
  pool.put({.name = "b", .path = path});
  EXPECT_EQ(pool.names(), (std::vector<std::string>{"b", "c"}));
  EXPECT_NE(acquire(pool, "b")->serial(), serial);
}

TEST_F(ModelPoolTest, ResolvesNamesOfHubs) {
  ModelPool pool(config(400), run);
  const std::filesystem::path path = golden_checkpoint("llama");
  pool.put({.name = "org/repo:Q4_K_M", .path = path});
  pool.put({.name = "llama3:1b", .path = path});
  EXPECT_EQ(pool.resolve("hf.co/org/repo:q4_k_m"), "org/repo:Q4_K_M");
  EXPECT_EQ(pool.resolve("org/repo"), "org/repo:Q4_K_M");
  EXPECT_EQ(pool.resolve("ollama:llama3:1b"), "llama3:1b");
  EXPECT_THROW(pool.resolve("llama3"), ApiError) << "another tag";
  pool.put({.name = "org/repo:Q8_0", .path = path});
  EXPECT_THROW(pool.resolve("org/repo"), ApiError) << "two types";
}

TEST_F(ModelPoolTest, NeverEvictsAModelInUse) {
  ModelPool pool(config(600), run);
  const Lease used = acquire(pool, "a");
  ASSERT_NE(used, nullptr) << error_;
  EXPECT_EQ(acquire(pool, "b"), nullptr);
  EXPECT_NE(error_.find("cannot allocate 600 B, 400 B are free"), std::string::npos) << error_;
  EXPECT_NE(error_.find("models in use, which are not unloaded: a"), std::string::npos) << error_;
  EXPECT_EQ(loaded(pool), std::vector<std::string>{"a"});
}

TEST_F(ModelPoolTest, EvictsTheLeastRecentlyUsedFirst) {
  ModelPool pool(config(400), run);
  ASSERT_NE(acquire(pool, "a"), nullptr) << error_;
  ASSERT_NE(acquire(pool, "b"), nullptr) << error_;
  ASSERT_NE(acquire(pool, "a"), nullptr) << error_;
  ASSERT_NE(acquire(pool, "c"), nullptr) << error_;
  EXPECT_EQ(loaded(pool), (std::vector<std::string>{"a", "c"}));
}

TEST_F(ModelPoolTest, AModelThatNeverFitsNamesTheNumbers) {
  ModelPool pool(config(2000), run);
  EXPECT_EQ(acquire(pool, "a"), nullptr);
  EXPECT_NE(error_.find("1000 B are free"), std::string::npos) << error_;
  EXPECT_EQ(error_.find("in use"), std::string::npos) << error_;
}

TEST_F(ModelPoolTest, AWaitingModelGetsItsTurn) {
  PoolConfig given = config(100);
  given.max_loaded = 1;
  given.switch_seconds = 0;
  ModelPool pool(given, run);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::pair<std::string, Lease>> leases;
  const auto request = [&](const std::string& name) {
    pool.acquire(
        name,
        [&, name](Lease lease) {
          const std::lock_guard lock(mutex);
          leases.emplace_back(name, std::move(lease));
          changed.notify_all();
        },
        [](const std::string& error) { ADD_FAILURE() << error; });
  };
  const auto wait_for = [&](std::size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return leases.size() >= count; });
  };
  request("a");
  wait_for(1);
  request("b");
  // New requests for a keep it in use, until one of them has to wait.
  std::size_t num_before = 0;
  std::size_t num_after = 1;
  while (num_after > num_before) {
    num_before = num_after;
    request("a");
    const std::lock_guard lock(mutex);
    num_after = leases.size();
  }
  std::vector<std::pair<std::string, Lease>> done;
  {
    const std::lock_guard lock(mutex);
    done.swap(leases);
  }
  done.clear();  // the requests of a end
  wait_for(1);
  EXPECT_EQ(leases[0].first, "b");
  done.swap(leases);
  done.clear();
  wait_for(1);
  EXPECT_EQ(leases[0].first, "a") << "the request that had to wait";
}

TEST_F(ModelPoolTest, OtherErrorsEvictNothing) {
  PoolConfig given = config(600);
  given.load = [load = given.load](const ModelInfo& info, const api::LlmConfig& llm) {
    if (info.name == "b") fail("b: damaged");
    return load(info, llm);
  };
  ModelPool pool(given, run);
  ASSERT_NE(acquire(pool, "a"), nullptr) << error_;
  EXPECT_EQ(acquire(pool, "b"), nullptr);
  EXPECT_EQ(error_, "b: damaged");
  EXPECT_EQ(loaded(pool), std::vector<std::string>{"a"});
}

TEST_F(ModelPoolTest, IdleModelsGiveTheirMemoryBack) {
  PoolConfig given = config(600);
  given.keep_alive_seconds = 0.01;
  std::mutex mutex;
  std::vector<std::string> reasons;
  given.on_event = [&](const PoolEvent& event) {
    const std::lock_guard lock(mutex);
    if (event.kind == PoolEvent::Kind::Unloaded) reasons.push_back(event.model + event.reason);
  };
  ModelPool pool(given, run);
  ASSERT_NE(acquire(pool, "a"), nullptr) << error_;
  for (int i = 0; i < 1000 && !loaded(pool).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_NE(acquire(pool, "b"), nullptr) << error_ << ": only one fits";
  const std::lock_guard lock(mutex);
  ASSERT_FALSE(reasons.empty());
  EXPECT_EQ(reasons[0], "aidle");
}

// The first of three models takes a third of what is free, the next half of the rest.
TEST_F(ModelPoolTest, ModelsShareTheMemoryByBudget) {
  PoolConfig given = config(100);
  given.llm.engine.gpu_memory_utilization = 0.6;
  given.max_loaded = 3;
  std::vector<double> shares;
  given.load = [&shares, load = given.load](const ModelInfo& info, const api::LlmConfig& llm) {
    shares.push_back(llm.engine.gpu_memory_utilization);
    return load(info, llm);
  };
  {
    ModelPool pool(given, run);
    for (const char* name : {"a", "b", "c"})
      ASSERT_NE(acquire(pool, name), nullptr) << error_;
    EXPECT_EQ(loaded(pool), (std::vector<std::string>{"a", "b", "c"}));
  }
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_DOUBLE_EQ(shares[0], 0.2);
  EXPECT_DOUBLE_EQ(shares[1], 0.3);
  EXPECT_DOUBLE_EQ(shares[2], 0.6);
  given.max_loaded = 0;
  shares.clear();
  {
    ModelPool pool(given, run);
    ASSERT_NE(acquire(pool, "a"), nullptr) << error_;
  }
  EXPECT_EQ(shares, std::vector<double>{0.6}) << "without a number of models there is no budget";
}

TEST_F(ModelPoolTest, ReportsWhetherMemoryWasShort) {
  PoolConfig given = config(600);
  std::mutex mutex;
  std::vector<bool> failures;
  given.on_event = [&](const PoolEvent& event) {
    const std::lock_guard lock(mutex);
    if (event.kind == PoolEvent::Kind::LoadFailed) failures.push_back(event.is_out_of_memory);
  };
  given.load = [load = given.load](const ModelInfo& info, const api::LlmConfig& llm) {
    if (info.name == "c") fail("c: damaged");
    return load(info, llm);
  };
  ModelPool pool(given, run);
  const Lease used = acquire(pool, "a");
  EXPECT_EQ(acquire(pool, "b"), nullptr);
  EXPECT_EQ(acquire(pool, "c"), nullptr);
  const std::lock_guard lock(mutex);
  EXPECT_EQ(failures, (std::vector<bool>{true, false}));
}

}  // namespace
}  // namespace graft::server
