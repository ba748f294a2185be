// The engine on a GPU: sampling from the top k, errors, and a lost CUDA context.

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
#include "graft/base/system/temp_dir.h"
#include "graft/models/families/family.h"
#include "graft/models/open_model.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/tensor/buffer.h"
#include "graft/testing/golden.h"
#include "graft/testing/placement.h"
#include "graft/testing/shared_data.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::engine {
namespace {

constexpr Device kGpu = {.type = DeviceType::Cuda, .index = 0};
using models::testing::kExactGpu;
using models::testing::kFastGpu;

using Ends = std::map<SequenceId, Finish>;
using Tokens = std::map<SequenceId, std::vector<TokenId>>;

class GpuEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    // Death tests must re-execute the program: a CUDA context does not survive a fork.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (ops::cuda::num_cuda_devices() > 0) return;
    const char* required = std::getenv("GRAFT_REQUIRE_GPU");
    if (required != nullptr && std::string(required) == "1") FAIL() << "no GPU";
    GTEST_SKIP() << "no GPU";
  }

  static models::OpenOptions options(const char* rules = kFastGpu) {
    models::OpenOptions options;
    options.rules = rules;
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

// Ten sequences, so that batches are padded; of different lengths, so that batches change.
TEST_F(GpuEngine, SamplesTheTokensOfTheHost) {
  for (const char* name : {"llama", "deepseek-v3", "deepseek-v4"}) {
    models::OpenModel open(folder(name), options());
    for (const std::vector<std::int64_t>& top_ks :
         {std::vector<std::int64_t>(10, 0), {200, 1, 5, 40, 60, 0, 3, 0, 17, 2}}) {
      std::vector<Request> requests;
      for (const std::int64_t top_k : top_ks)
        requests.push_back(request(static_cast<TokenId>(requests.size()), top_k));
      for (const bool is_eager : {false, true}) {
        Tokens on_gpu;
        Tokens on_host;
        Engine engine(open, nullptr, config(is_eager));
        run(engine, requests, &on_gpu);
        std::vector<Request> with_logprobs = requests;
        for (Request& each : with_logprobs)
          each.params.logprobs = 0;  // requires all logits
        Engine other(open, nullptr, config(is_eager));
        run(other, with_logprobs, &on_host);
        EXPECT_EQ(on_gpu.size(), 10U);
        EXPECT_EQ(on_gpu, on_host) << name << (is_eager ? ", eager" : "");
      }
    }
  }
}

// Preempted sequences and prompts that are seen again load their blocks from host memory. In f32,
// because prompts are then computed in other chunks, which changes what 16-bit products round.
// Masks and penalties that depend on the tokens of the step before, which the next pass does not
// wait for.
TEST_F(GpuEngine, SamplesLaterTheTokensOfTheHost) {
  models::OpenModel open(bundled_sprout(), options());
  ASSERT_TRUE(open.model().can_run_ahead());
  const tokenizer::Tokenizer tokenizer(open.source().tokenizer(), models::pre_tokenizer_names());
  std::vector<Request> requests;
  for (TokenId i = 0; i < 10; ++i) {
    requests.push_back(request(i, i % 3 == 0 ? 0 : 40));
    SamplingParams& params = requests.back().params;
    if (i % 2 == 0) {
      params.structured_output = StructuredOutput{
          .kind = StructuredOutput::Kind::JsonSchema,
          .text = R"({"type": "array", "items": {"enum": ["red", "green", 7]}, "minItems": 3})"};
    } else if (i % 5 == 0) {
      params.repetition_penalty = 1.3;
    }
  }
  for (const bool is_eager : {false, true}) {
    Tokens on_gpu;
    Tokens on_host;
    Engine engine(open, &tokenizer, config(is_eager));
    run(engine, requests, &on_gpu);
    std::vector<Request> with_logprobs = requests;
    for (Request& each : with_logprobs)
      each.params.logprobs = 0;  // requires all logits
    Engine host_engine(open, &tokenizer, config(is_eager));
    run(host_engine, with_logprobs, &on_host);
    EXPECT_EQ(on_gpu, on_host);
  }
}

TEST_F(GpuEngine, TiersKeepTheTokens) {
  for (const char* name : {"llama", "deepseek-v3", "qwen3-next"}) {
    models::OpenModel open(folder(name), options(kExactGpu));
    std::vector<Request> requests;
    for (TokenId i = 0; i < 10; ++i) {
      requests.push_back(request(i, 0));
      for (TokenId t = 0; t < 40; ++t)
        requests.back().prompt.push_back((t * 29 + i / 3) % 250);
    }
    EngineConfig small = config();
    small.num_kvcache_blocks = 20;
    small.kvcache_block_size = 16;
    Tokens want;
    Engine without(open, nullptr, small);
    run(without, requests, &want);
    small.kv_host_bytes = std::uint64_t{64} << 20U;
    Engine engine(open, nullptr, small);
    engine.tiers()->set_policy({.always_load = true});
    Tokens got;
    run(engine, requests, &got);
    EXPECT_EQ(got, want) << name;
    engine.release_idle_memory();
    Tokens again;
    run(engine, requests, &again);
    EXPECT_EQ(again.size(), want.size());
    auto expected = want.begin();
    for (const auto& [id, tokens] : again)
      EXPECT_EQ(tokens, (expected++)->second) << name << ", request " << id.request;
    EXPECT_GT(engine.stats().host_tier.num_loads, 10) << name;
  }
}

TEST_F(GpuEngine, SavedSequencesContinueInAnotherEngine) {
  const TempDir folder_of_file;
  const auto path = folder_of_file / "saved.seq";
  Request saved = request(3, 40);
  while (saved.prompt.size() < 37)
    saved.prompt.push_back(static_cast<TokenId>(saved.prompt.size() * 11 % 250));
  saved.params.max_tokens = 24;
  for (const char* name : {"deepseek-v3.2", "deepseek-v4"}) {
    models::OpenModel open(folder(name), options());
    Tokens whole;
    Engine engine(open, nullptr, config());
    run(engine, {saved}, &whole);
    ASSERT_EQ(whole.size(), 1U);
    const std::vector<TokenId>& want = whole.begin()->second;
    for (const int num_steps : {1, 6}) {
      {
        Engine before(open, nullptr, config());
        const RequestId id = before.add(saved);
        for (int i = 0; i < num_steps; ++i)
          before.step();
        before.save({.request = id, .sample = 0}, path);
      }
      Engine after(open, nullptr, config());
      after.restore(path);
      Tokens rest;
      run(after, {}, &rest);
      ASSERT_EQ(rest.size(), 1U);
      const std::vector<TokenId>& got = rest.begin()->second;
      ASSERT_GT(got.size(), 12U);
      ASSERT_LE(got.size(), want.size());
      EXPECT_EQ(got, std::vector<TokenId>(want.end() - std::ssize(got), want.end()))
          << name << " after " << num_steps << " steps";
    }
  }
}

TEST_F(GpuEngine, OutOfMemoryErrorNamesTheSizes) {
  ops::Registry registry;
  ops::cuda::register_cuda(registry);
  try {
    const Buffer buffer(std::size_t{1} << 50U, kGpu);
    FAIL() << "allocated 1 PiB";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("cuda:0: cannot allocate ")) << text;
    EXPECT_TRUE(text.ends_with(" are free")) << text;
  }
  const Buffer small(1024, kGpu);  // the error is not sticky
  EXPECT_NE(small.data(), nullptr);
}

// Needs no GPU.
TEST(GpuErrors, NameTheOperationAndTheFix) {
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

// Runs in a child process, which exits with 0 on success.
class LostGpu : public GpuEngine {
 protected:
  [[noreturn]] static void break_gpu_and_send_requests() {
    models::OpenModel open(folder("llama"), options());
    Engine engine(open, nullptr, config());
    for (const auto& [id, finish] : run(engine, {request(1, 0)}))
      expect(finish.reason == FinishReason::Length, finish.message);
    read_invalid_address();
    for (int i = 0; i < 3; ++i) {
      const Ends ends = run(engine, {request(1, 0), request(2, 5)});
      expect(ends.size() == 2 && !engine.has_work(), "a request did not finish");
      for (const auto& [id, finish] : ends) {
        const bool asks_for_restart = finish.message.ends_with("restart the process");
        expect(finish.reason == FinishReason::Error && asks_for_restart, finish.message);
      }
    }
    std::_Exit(0);  // skips destructors, which would fail on the lost context
  }

 private:
  static void expect(bool holds, const std::string& what) {
    if (holds) return;
    std::cerr << what << '\n';
    std::_Exit(1);
  }
  static void read_invalid_address() {
    ops::cuda::CudaContext state(kGpu);
    ThreadPool pool(1);
    const ops::Batch batch;
    ops::Pass pass{.batch = batch, .pool = pool, .workspace = state.workspace()};
    auto* invalid = reinterpret_cast<float*>(std::uintptr_t{1} << 20U);
    const TensorView rows(invalid, DType::F32, {4, 64}, kGpu);
    try {
      state.add(rows, rows, pass);
      state.wait();
    } catch (const Error& error) {
      return expect(std::string(error.what()).ends_with("restart the process"), error.what());
    }
    expect(false, "reading an invalid address succeeded");
  }
};

TEST_F(LostGpu, LaterRequestsFailUntilRestart) {
  EXPECT_EXIT(break_gpu_and_send_requests(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace graft::engine
