// The model behind graft::LLM (include/graft/llm.h), with access to its tokenizer, checkpoint and
// plan for the commands and the server. Thread-safe: the engine runs on its own thread and batches
// concurrent requests.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graft/engine/snapshots/snapshot.h"
#include "graft/llm.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/ops/profiler.h"
#include "graft/perf/memory.h"
#include "graft/plan/plan.h"
#include "graft/tensor/device.h"
#include "graft/tokenizer/tokenizer.h"
#include "graft/vision/processor.h"

namespace graft::api {

using graft::AdapterInfo;
using graft::AdapterSource;
using graft::EngineConfig;
using graft::EngineStats;
using graft::Finish;
using graft::FinishReason;
using graft::LlmConfig;
using graft::Output;
using graft::Pooling;
using graft::Prompt;
using graft::PromptImage;
using graft::RequestId;
using graft::Sample;
using graft::SamplingParams;
using graft::SamplingStep;
using graft::SequenceId;
using graft::StepInfo;
using graft::SubmitOptions;
using graft::Timings;
using graft::TokenId;
using graft::TokenLogprobs;
using graft::Update;

// Bytes of weights, KV cache and workspace on each device.
using DeviceMemory = std::map<Device, perf::MemoryUse>;

// Members with the names of graft::LLM's do what is documented there.
class LLM {
 public:
  using Callback = graft::LLM::Callback;

  explicit LLM(const std::filesystem::path& model, const LlmConfig& config = {});
  LLM(const LLM&) = delete;
  LLM& operator=(const LLM&) = delete;
  ~LLM();

  std::vector<Output> generate(const std::vector<Prompt>& prompts,
                               const SamplingParams& params = {});
  std::vector<Output> generate(const std::vector<Prompt>& prompts,
                               const std::vector<SamplingParams>& params);

  RequestId submit(const Prompt& prompt,
                   const SamplingParams& params,
                   Callback callback,
                   const SubmitOptions& options = {});
  void abort(RequestId request);
  AdapterInfo load_adapter(const AdapterSource& source);
  bool unload_adapter(const std::string& name);
  std::vector<AdapterInfo> adapters() const;
  // Queues the embedding of a prompt; its one update has `embedding`, or a finish with Error or
  // Abort.
  RequestId submit_embedding(const Prompt& prompt,
                             Pooling pooling,
                             Callback callback,
                             const SubmitOptions& options = {});
  // Stops computing a request, for a consumer that is behind, until resume(). A few more updates
  // may follow. Callable from callbacks.
  void pause(RequestId request);
  void resume(RequestId request);
  void save(SequenceId id, const std::filesystem::path& path);
  RequestId restore(const std::filesystem::path& path, Callback callback);
  // Of what engine::read_snapshot() returned: `where` begins the messages of its errors. Its
  // priority and its cache salt are the saved ones.
  RequestId restore(engine::Snapshot snapshot,
                    const std::string& where,
                    Callback callback,
                    std::uint64_t client = 0);
  std::vector<float> embed(const Prompt& text, Pooling pooling = Pooling::Mean);

  bool has_vision() const;
  std::shared_ptr<const vision::PreparedImage> prepare_image(std::span<const std::byte> file) const;
  std::int64_t num_image_tokens(const vision::PreparedImage& image) const;

  // Null when the checkpoint has no tokenizer; then prompts must be token ids.
  const tokenizer::Tokenizer* tokenizer() const;
  const models::Checkpoint& source() const;
  const plan::Plan& plan() const;
  const EngineConfig& config() const;  // with defaults resolved
  EngineStats stats() const;
  DeviceMemory memory_use() const;  // as of the last step
  // Data type of the KV cache, values per token of keys and values; of each kind of layer.
  std::string cache_form() const;
  // Why the model cannot be used any more: a file that it is mapped from was truncated. Load it
  // again. Empty: it can.
  std::string failure() const;
  std::map<std::string, ops::Profiler::Entry> profile();
  // Of the experts that a GPU computes with weights in host memory, by module. Waits for the
  // current step.
  std::map<std::string, ops::ExpertUsage> expert_usage();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graft::api
