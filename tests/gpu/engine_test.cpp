// The engine on a GPU: what it chooses there, and what becomes of it when the GPU fails.

#include "graft/engine/engine.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/ops/cuda/cuda_context.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime.h"
#include "graft/tensor/buffer.h"
#include "graft/testing/golden.h"

namespace graft::engine {
namespace {

constexpr Device kGpu = {.type = DeviceType::Cuda, .index = 0};
constexpr const char* kOnTheGpu =
    "- {match: {name: \".*\"}, replace: {class: default, kwargs: {device: \"cuda:0\"}}}\n";

using Ends = std::map<SequenceId, Finish>;
using Tokens = std::map<SequenceId, std::vector<TokenId>>;

class GpuEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    // Another process of this program must be another program: a GPU does not survive a fork.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (ops::cuda::num_cuda_devices() > 0) return;
    const char* required = std::getenv("GRAFT_REQUIRE_GPU");
    if (required != nullptr && std::string(required) == "1") FAIL() << "there is no GPU";
    GTEST_SKIP() << "there is no GPU";
  }

  static models::OpenOptions options() {
    models::OpenOptions options;
    options.rules = kOnTheGpu;
    options.machine.num_gpus = 1;
    options.operators = [](int /*num_gpus*/) {
      ops::Registry registry = ops::builtin_operators();
      ops::cuda::register_cuda(registry);
      return registry;
    };
    return options;
  }
  static EngineConfig config(bool is_eager = false) {
    EngineConfig config;
    config.max_num_batched_tokens = 64;
    config.max_num_seqs = 12;
    config.max_model_len = 100;
    config.num_kvcache_blocks = 200;
    config.enforce_eager = is_eager;
    return config;
  }
  static Request request(TokenId first, std::int64_t top_k) {
    Request request;
    for (TokenId i = 0; i < 5; ++i)
      request.prompt.push_back((first * 31 + i * 7) % 250);
    request.params.temperature = top_k == 0 ? 0 : 1;
    request.params.top_k = top_k;
    request.params.seed = static_cast<std::uint64_t>(first);
    request.params.ignore_eos = true;
    request.params.max_tokens = 12 + first;
    return request;
  }
  static std::filesystem::path folder(const std::string& name) { return golden_checkpoint(name); }

  static Ends run(Engine& engine, const std::vector<Request>& requests, Tokens* tokens = nullptr) {
    for (const Request& each : requests)
      engine.add(each);
    Ends ends;
    for (int step = 0; engine.has_work() && step < 1000; ++step) {
      for (const Update& update : engine.step()) {
        if (update.finish) ends[update.id] = *update.finish;
        if (tokens == nullptr) continue;
        std::vector<TokenId>& all = (*tokens)[update.id];
        all.insert(all.end(), update.tokens.begin(), update.tokens.end());
      }
    }
    return ends;
  }
};

// Ten sequences, so that passes have padding; of different lengths, so that what is wanted changes.
TEST_F(GpuEngine, WhatIsChosenThereIsWhatAllLogitsGive) {
  for (const char* name : {"llama", "deepseek-v3"}) {
    models::OpenModel open(folder(name), options());
    for (const std::vector<std::int64_t>& top_ks :
         {std::vector<std::int64_t>(10, 0), {200, 1, 5, 40, 60, 0, 3, 0, 17, 2}}) {
      std::vector<Request> requests;
      for (const std::int64_t top_k : top_ks)
        requests.push_back(request(static_cast<TokenId>(requests.size()), top_k));
      for (const bool is_eager : {false, true}) {
        Tokens chosen_there;
        Tokens from_all;
        Engine engine(open, nullptr, config(is_eager));
        run(engine, requests, &chosen_there);
        std::vector<Request> with_all = requests;
        for (Request& each : with_all)
          each.params.logprobs = 0;  // which only all logits give
        Engine other(open, nullptr, config(is_eager));
        run(other, with_all, &from_all);
        EXPECT_EQ(chosen_there.size(), 10U);
        EXPECT_EQ(chosen_there, from_all) << name << (is_eager ? ", eager" : "");
      }
    }
  }
}

TEST_F(GpuEngine, MemoryThatIsNotThereIsAnErrorWithNumbers) {
  ops::Registry registry;
  ops::cuda::register_cuda(registry);
  try {
    const Buffer buffer(std::size_t{1} << 50U, kGpu);
    FAIL() << "a pebibyte";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("cuda:0: cannot allocate ")) << text;
    EXPECT_TRUE(text.ends_with(" are free")) << text;
  }
  const Buffer small(1024, kGpu);  // nothing of it stays
  EXPECT_NE(small.data(), nullptr);
}

// Needs no GPU: it is about words.
TEST(GpuErrors, SayWhatWasDoneAndWhatToDo) {
  EXPECT_NO_THROW(ops::cuda::check_cuda(cudaSuccess, "copying to the GPU"));
  try {
    ops::cuda::check_cuda(cudaErrorLaunchFailure, "copying to the GPU");
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "CUDA: copying to the GPU: unspecified launch failure; the CUDA context is "
                 "lost, restart the process");
  }
}

// Exits with 0 when everything is as it should be, and says what is not.
class LostGpu : public GpuEngine {
 protected:
  [[noreturn]] static void lose_and_ask() {
    models::OpenModel open(folder("llama"), options());
    Engine engine(open, nullptr, config());
    for (const auto& [id, finish] : run(engine, {request(1, 0)}))
      expect(finish.reason == FinishReason::Length, finish.message);
    read_from_nowhere();
    for (int i = 0; i < 3; ++i) {
      const Ends ends = run(engine, {request(1, 0), request(2, 5)});
      expect(ends.size() == 2 && !engine.has_work(), "a request that does not end");
      for (const auto& [id, finish] : ends) {
        const bool is_told = finish.message.ends_with("restart the process");
        expect(finish.reason == FinishReason::Error && is_told, finish.message);
      }
    }
    std::_Exit(0);  // what destructors say to a lost GPU is of no interest
  }

 private:
  static void expect(bool holds, const std::string& what) {
    if (holds) return;
    std::cerr << what << '\n';
    std::_Exit(1);
  }
  static void read_from_nowhere() {
    ops::cuda::CudaContext state(kGpu);
    ThreadPool pool(1);
    const ops::Batch batch;
    ops::Pass pass{.batch = batch, .pool = pool, .workspace = state.workspace()};
    auto* nowhere = reinterpret_cast<float*>(std::uintptr_t{1} << 20U);
    const TensorView rows(nowhere, DType::F32, {4, 64}, kGpu);
    try {
      state.add(rows, rows, pass);
      state.wait();
    } catch (const Error& error) {
      return expect(std::string(error.what()).ends_with("restart the process"), error.what());
    }
    expect(false, "memory that is nobody's was read");
  }
};

TEST_F(LostGpu, EveryLaterRequestIsToldToStartAgain) {
  EXPECT_EXIT(lose_and_ask(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace graft::engine
