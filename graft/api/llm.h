// The public C++ interface: loads a model and generates text.
//
//   graft::api::LLM llm("model.gguf");
//   for (const auto& output : llm.generate({"Once upon a time"}, {.max_tokens = 64}))
//     std::cout << output.samples[0].text;
//
// Thread-safe. The engine runs on its own thread and batches concurrent requests.

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
  std::filesystem::path rules = {};  // rule file; empty: the default of the model family
  // Without a rule file: "cpu", "cuda" or "cuda:1" to place the whole model there; empty: the
  // default rules of the model family for this machine's GPUs.
  std::string device = {};
  std::vector<std::filesystem::path> plugins = {};  // shared libraries with operators
  std::size_t num_threads = 0;                      // 0: one per core
  std::vector<int> processors = {};  // CPU ids to pin the threads to; empty: no pinning
  // Repack weights while loading. Without: instant load from the mapped file, slower inference.
  bool repack = true;
  // Cache the repacked weights in a file beside the model (its name + ".graft-packed"), which later
  // starts and other processes map. on_warning reports when the file cannot be written.
  bool repack_cache = false;
  // Memory limit for weights and KV cache together, bytes; 0: the free memory.
  std::uint64_t memory = 0;
  bool profile = false;  // measure the time of every module, see LLM::profile()
  // Loading progress in bytes of weights; called on the thread that constructs the LLM.
  std::function<void(std::uint64_t done, std::uint64_t total)> on_load = {};
  // Human-readable warnings about the checkpoint while loading; called on the same thread.
  std::function<void(const std::string& line)> on_warning = {};
};

// Text, or token ids.
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
  std::int64_t num_cached = 0;  // prompt tokens found in the prefix cache
  std::vector<TokenLogprobs> prompt_logprobs;
};

struct SubmitOptions {
  std::int64_t priority = 0;     // lower runs first
  std::uint64_t cache_salt = 0;  // the prefix cache is shared only between equal salts
};

class LLM {
 public:
  // Called on the engine's thread for every update of a request; the last update of each sample has
  // `finish`. Must not block, and may call only submit() and abort() of the LLM. A request whose
  // callback throws is aborted.
  using Callback = std::function<void(const Update& update)>;

  // Throws Error when the model cannot be loaded or the configuration is invalid.
  explicit LLM(const std::filesystem::path& model, const LlmConfig& config = {});
  LLM(const LLM&) = delete;
  LLM& operator=(const LLM&) = delete;
  ~LLM();  // running requests finish with FinishReason::Abort

  // Blocks until all prompts have finished; outputs are in the order of the prompts. Throws Error
  // when a request is invalid.
  std::vector<Output> generate(const std::vector<Prompt>& prompts,
                               const SamplingParams& params = {});
  std::vector<Output> generate(const std::vector<Prompt>& prompts,
                               const std::vector<SamplingParams>& params);

  // Queues a request. Each of its samples finishes exactly once. Throws Error when it is invalid.
  RequestId submit(const Prompt& prompt,
                   const SamplingParams& params,
                   Callback callback,
                   const SubmitOptions& options = {});
  // Aborts a running request at the next step; no effect on a finished one.
  void abort(RequestId request);

  // Saves a running sequence to a file, and restores it (Engine::save, Engine::restore). Both wait
  // for the current step.
  void save(SequenceId id, const std::filesystem::path& path);
  RequestId restore(const std::filesystem::path& path, Callback callback);

  // The embedding of a text, normalized to length 1 (Engine::embed). Runs between two steps and
  // blocks until done. Throws Error.
  std::vector<float> embed(const Prompt& text, Pooling pooling = Pooling::Mean);

  // Null when the checkpoint has no tokenizer; then prompts must be token ids.
  const tokenizer::Tokenizer* tokenizer() const;
  const models::Checkpoint& source() const;
  const plan::Plan& plan() const;      // operator and device of every module
  const EngineConfig& config() const;  // with defaults resolved
  EngineStats stats() const;           // as of the last step
  // Accumulated time of every module by name since loading; empty without LlmConfig::profile. Waits
  // for the current step.
  std::map<std::string, ops::Profiler::Entry> profile();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graft::api
