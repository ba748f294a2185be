// The whole of graft behind one class, for programs of one's own: a model, and prompts through it.
//
//   graft::api::LLM llm("model.gguf");
//   for (const auto& output : llm.generate({"Once upon a time"}, {.max_tokens = 64}))
//     std::cout << output.samples[0].text;
//
// Everything may be called from any thread; the model runs on a thread of its own, and requests
// that are there at the same time are computed together.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "graft/engine/config.h"
#include "graft/engine/request.h"
#include "graft/engine/sampling_params.h"
#include "graft/models/checkpoint.h"
#include "graft/ops/profiler.h"
#include "graft/plan/plan.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::api {

using engine::EngineConfig;
using engine::EngineStats;
using engine::Finish;
using engine::FinishReason;
using engine::Pooling;
using engine::RequestId;
using engine::SamplingParams;
using engine::SequenceId;
using engine::TokenId;
using engine::TokenLogprobs;
using engine::Update;

struct LlmConfig {
  EngineConfig engine = {};
  std::filesystem::path rules = {};  // rule file; empty: the default of the model's family
  // Without rules: "cpu", "cuda" or "cuda:1" for everything there; empty: as the default rules for
  // the model's family and this machine's GPUs have it.
  std::string device = {};
  std::vector<std::filesystem::path> plugins = {};  // libraries with operators
  std::size_t num_threads = 0;                      // 0: one per core
  std::vector<int> processors = {};                 // to pin the threads to; empty: not pinned
  // Rearrange weights for speed while loading. Without, a model is there at once, and slow.
  bool repack = true;
  // Keep the rearranged weights beside the model, in a file with ".graft-packed" behind its name:
  // later starts, and other processes, map it. on_warning says when that does not work.
  bool repack_cache = false;
  // Bytes that weights and cache may take together; 0: what is free.
  std::uint64_t memory = 0;
  bool profile = false;  // measure the time of every module, see LLM::profile()
  // Bytes of weights so far and in all while loading, on the thread that constructs the LLM.
  std::function<void(std::uint64_t done, std::uint64_t total)> on_load = {};
  // A line for people about what was mended or left out while loading, on the same thread.
  std::function<void(const std::string& line)> on_warning = {};
};

// Text, or the tokens themselves.
using Prompt = std::variant<std::string, std::vector<TokenId>>;

struct Timings {
  double first_token_seconds = 0;  // from submission
  double total_seconds = 0;
};

struct Sample {
  std::string text;
  std::vector<TokenId> tokens;
  Finish finish;
  std::vector<TokenLogprobs> logprobs;
  Timings timings;
};

struct Output {
  std::vector<Sample> samples;  // SamplingParams::n of them
  std::int64_t num_prompt = 0;
  std::int64_t num_cached = 0;  // of the prompt, found in the cache
  std::vector<TokenLogprobs> prompt_logprobs;
};

struct SubmitOptions {
  std::int64_t priority = 0;     // lower runs first
  std::uint64_t cache_salt = 0;  // prefixes are shared within one salt (engine::Request)
};

class LLM {
 public:
  // Called on the model's thread for every update of a request, the last one with `finish`; must be
  // quick and must not call back into the LLM except for submit() and abort(). A request whose
  // callback throws is aborted.
  using Callback = std::function<void(const Update& update)>;

  // Throws Error when the model cannot be opened or the configuration cannot work.
  explicit LLM(const std::filesystem::path& model, const LlmConfig& config = {});
  LLM(const LLM&) = delete;
  LLM& operator=(const LLM&) = delete;
  ~LLM();  // requests that still run end with FinishReason::Abort

  // In the order of the prompts, when all have ended. Throws Error when one of them can never run.
  std::vector<Output> generate(const std::vector<Prompt>& prompts,
                               const SamplingParams& params = {});
  std::vector<Output> generate(const std::vector<Prompt>& prompts,
                               const std::vector<SamplingParams>& params);

  // Throws Error when it can never run. Each of its samples ends exactly once.
  RequestId submit(const Prompt& prompt,
                   const SamplingParams& params,
                   Callback callback,
                   const SubmitOptions& options = {});
  // Its updates end soon, unless it has ended.
  void abort(RequestId request);

  // A running sequence to a file, and back (Engine::save, Engine::restore). Both wait for the
  // current step.
  void save(SequenceId id, const std::filesystem::path& path);
  RequestId restore(const std::filesystem::path& path, Callback callback);

  // The text as one vector of length 1 (Engine::embed), between the steps of what runs; waits for
  // it. Throws Error.
  std::vector<float> embed(const Prompt& text, Pooling pooling = Pooling::Mean);

  // Null when the checkpoint has none; then prompts must be tokens.
  const tokenizer::Tokenizer* tokenizer() const;
  const models::Checkpoint& source() const;
  const plan::Plan& plan() const;      // what runs where
  const EngineConfig& config() const;  // with everything filled in
  EngineStats stats() const;           // as of the last step
  // Time of every module by name since the model was loaded, empty unless LlmConfig::profile asks
  // for it. Waits for the current step.
  std::map<std::string, ops::Profiler::Entry> profile();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graft::api
