// Loads a model and generates text.
//
//   graft::LLM llm("model.gguf");
//   const graft::SamplingParams params = {.temperature = 0, .max_tokens = 64};
//   for (const graft::Output& output : llm.generate({"Once upon a time"}, params))
//     std::cout << output.samples[0].text;
//
// All members of LLM are thread-safe. The engine runs on its own thread and batches concurrent
// requests. Functions throw graft::Error for what the user can fix.

#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graft/error.h"
#include "graft/sampling_params.h"

namespace graft {

// Limits of the engine, with vLLM's names.
struct EngineConfig {
  // Token budget of one step, over all sequences. 0: 2048; up to 16384, as memory allows, when
  // prefill streams experts from host memory.
  std::int64_t max_num_batched_tokens = 0;
  std::int64_t max_num_seqs = 128;       // running sequences
  std::int64_t max_model_len = 0;        // prompt and output tokens; 0: the model's context length
  std::int64_t kvcache_block_size = 0;   // tokens; 0: the kv_cache rule's value (default 16)
  std::int64_t num_kvcache_blocks = -1;  // -1: as many as fit into memory
  double gpu_memory_utilization = 0.9;   // fraction of the free memory that the KV cache may use
  std::int64_t chunk_prefill_size = 0;   // max prompt tokens of a sequence per step; 0: the budget
  std::int64_t tensor_parallel_size = 1;
  bool enforce_eager = false;  // disables CUDA graphs; no effect on the CPU
  bool enable_prefix_caching = true;
  // Tiers of the prefix cache below the KV cache: bytes of host memory and of files in kv_dir; 0:
  // none. Blocks are copied to them after they are computed, and are loaded from them when a prompt
  // begins with their tokens. Files outlive the process; processes may share a folder.
  std::uint64_t kv_host_bytes = 0;
  std::uint64_t kv_disk_bytes = 0;
  std::filesystem::path kv_dir = {};
  Speculation speculate = {};  // of requests without one of their own
  // Idle seconds after which the KV cache's memory, including the prefix cache, is released to the
  // system. Negative: never.
  double idle_release_seconds = 300;
};

// One step of the engine.
struct StepInfo {
  std::int64_t num_tokens = 0;       // computed, of prompts and output
  std::int64_t num_output = 0;       // sampled tokens
  std::int64_t num_preemptions = 0;  // sequences that lost their KV blocks
  std::int64_t num_running = 0;      // sequences after the step
  std::int64_t num_waiting = 0;
  double seconds = 0;
};

// A LoRA adapter of a model: a PEFT folder or a GGUF file.
struct AdapterSource {
  std::string name;  // letters, digits, '-', '_' and '.'
  std::filesystem::path path;
  double scale = 1.0;  // multiplies that of the file

  bool operator==(const AdapterSource&) const = default;
};

// A loaded adapter.
struct AdapterInfo {
  AdapterSource source;
  std::uint64_t bytes = 0;     // of its matrices in memory
  std::int64_t max_rank = 0;   // of its matrices
  std::uint64_t identity = 0;  // hash of its matrices and scales: equal in every process
};

struct LlmConfig {
  EngineConfig engine = {};
  std::filesystem::path rules = {};  // rule file; empty: see `device`
  // Without a rule file: "cpu", "cuda" or "cuda:1" to place the whole model there; empty: chosen
  // from the free memory of this machine's GPUs and its host memory.
  std::string device = {};
  // Type of the KV cache: "f32", "f16", "bf16", "fp8", "q8_0" or "q4_0" on CPUs, the first three on
  // GPUs. Empty: that of the rules, else f16.
  std::string kv_cache_dtype = {};
  // The vision tower of a GGUF model (mmproj); empty: the one beside the model, if there is one.
  std::filesystem::path mmproj = {};
  // A folder, tokenizer.json or GGUF file with the tokenizer to use; empty: that of the model.
  std::filesystem::path tokenizer = {};
  std::vector<std::filesystem::path> plugins = {};  // shared libraries with operators
  std::vector<AdapterSource> adapters = {};         // loaded with the model
  std::string default_adapter = {};                 // of requests that name none; empty: none
  std::size_t num_threads = 0;                      // 0: one per core
  std::vector<int> cpus = {};  // CPU ids to pin the threads to; empty: no pinning
  // Repack weights while loading. Without: instant load from the mapped file, slower inference.
  bool repack = true;
  // Cache the repacked weights in a file beside the model (its name + ".graft-packed"), which later
  // starts and other processes map. on_warning reports when the file cannot be written.
  bool repack_cache = false;
  // Where experts stay in host memory: a file with the experts that routers chose. Read when it
  // exists, so that the most used experts start in GPU memory; written when the LLM is destroyed.
  // on_warning reports when no layer has experts in host memory that a GPU computes too.
  std::filesystem::path expert_stats = {};
  // Memory limit for weights and KV cache together, bytes; 0: the free memory.
  std::uint64_t memory = 0;
  bool profile = false;  // measure the time of every module, see LLM::profile()
  // Loading progress in bytes of weights; called on the thread that constructs the LLM.
  std::function<void(std::uint64_t done, std::uint64_t total)> on_load = {};
  // Human-readable warnings about the checkpoint while loading; called on the same thread.
  std::function<void(const std::string& line)> on_warning = {};
  // Where the model was placed, when the machine has GPUs and the placement was chosen; same
  // thread.
  std::function<void(const std::string& summary)> on_placement = {};
  // After every step; called on the engine's thread, must not block or throw.
  std::function<void(const StepInfo& step)> on_step = {};
};

// Text, or token ids.
using Prompt = std::variant<std::string, std::vector<TokenId>>;

using RequestId = std::uint64_t;

// Sample `sample` of a request, 0 to n - 1.
struct SequenceId {
  RequestId request = 0;
  std::int64_t sample = 0;

  auto operator<=>(const SequenceId&) const = default;
};

namespace vision {
struct PreparedImage;
}  // namespace vision

// An image of a prompt, for models with a vision tower.
struct PromptImage {
  std::int64_t position = 0;  // of the token in the prompt that the image replaces
  std::shared_ptr<const vision::PreparedImage> image = {};  // LLM::prepare_image()
};

struct SubmitOptions {
  // Slots and prompt tokens of a step are shared equally between clients with work.
  std::uint64_t client = 0;
  std::int64_t priority = 0;  // lower runs first, within the client
  // The prefix cache is shared only between requests of equal salts, so that the time to first
  // token does not reveal another user's prompts. 0 is an ordinary salt.
  std::uint64_t cache_salt = 0;
  std::string adapter = {};              // name of a loaded adapter; empty: none
  std::vector<PromptImage> images = {};  // ascending by position
};

enum class FinishReason : std::uint8_t {
  Stop,    // an EOS token, a stop token or a stop string
  Length,  // max_tokens, max_model_len, or the KV cache is full
  Abort,
  Error,
};
std::string_view to_string(FinishReason reason);  // "stop", "length", "abort", "error"

struct Finish {
  FinishReason reason = FinishReason::Stop;
  std::string message = {};                   // details, where the reason alone is not enough
  std::optional<TokenId> stop_token = {};     // the EOS or stop token that was sampled
  std::optional<std::string> stop_text = {};  // the stop string that was matched
};

// Natural logarithms of the model's own probabilities, before any sampling parameter is applied.
struct TokenLogprobs {
  TokenId token = 0;
  float logprob = 0;
  std::int64_t rank = 1;  // of the token among all, 1: the most likely; equal ones by id
  std::vector<std::pair<TokenId, float>> top = {};  // the most likely tokens, descending
};

using TimePoint = std::chrono::steady_clock::time_point;

// The new output of a sample after one step. Every sample of a request finishes exactly once.
struct Update {
  SequenceId id = {};
  std::vector<TokenId> tokens = {};          // new tokens, including a final EOS or stop token
  std::string text = {};                     // new complete text; empty without a tokenizer
  std::vector<TokenLogprobs> logprobs = {};  // of `tokens`, when requested
  std::optional<Finish> finish = {};         // set in the last update of a sample
  // Totals of the sample so far, in tokens.
  std::int64_t num_prompt = 0;
  std::int64_t num_cached = 0;  // prompt tokens found in the prefix cache
  std::int64_t num_output = 0;
  std::int64_t num_draft_tokens = 0;     // guessed and verified (Speculation)
  std::int64_t num_accepted_tokens = 0;  // of them
  // Set in the last update of a sample.
  std::vector<TokenLogprobs> prompt_logprobs = {};  // starts at the second prompt token
  std::vector<float> embedding = {};                // of an embedding
  TimePoint arrived = {};
  std::optional<TimePoint> first_scheduled = {};
  std::optional<TimePoint> first_token = {};
};

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

// How the hidden states of a text are pooled into one embedding.
enum class Pooling : std::uint8_t { Mean, Last };

// The blocks of the KV cache.
struct BlockStats {
  std::int64_t num_blocks = 0;
  std::int64_t num_used = 0;    // referenced by a sequence
  std::int64_t num_cached = 0;  // free, still in the prefix cache
};

// A tier of the KV cache: host memory or disk. Counters count blocks; the recurrent states after a
// block count as one.
struct TierStats {
  std::uint64_t capacity = 0;  // bytes; 0: no such tier
  std::uint64_t bytes = 0;     // used; on disk by all processes, as of the last look at the folder
  std::int64_t num_blocks = 0;
  std::int64_t num_hits = 0;
  std::int64_t num_misses = 0;
  std::int64_t num_loads = 0;   // read from the tier
  std::int64_t num_stores = 0;  // written to it
  std::int64_t num_evictions = 0;
  std::int64_t num_errors = 0;  // damaged or unreadable files, failed writes
};

// Tokens guessed and verified together (Speculation).
struct SpeculationStats {
  std::int64_t num_drafts = 0;        // sequences in steps, with one or more guessed tokens
  std::int64_t num_draft_tokens = 0;  // guessed
  std::int64_t num_accepted_tokens = 0;
  std::vector<std::int64_t> accepted_by_position = {};  // guessed first, second, ...
};

struct EngineStats {
  std::int64_t num_running = 0;
  std::int64_t num_waiting = 0;
  std::int64_t num_preemptions = 0;
  std::int64_t num_queried_tokens = 0;  // looked up in the prefix cache
  std::int64_t num_hit_tokens = 0;      // found in the prefix cache
  std::int64_t num_steps = 0;
  std::int64_t num_computed_tokens = 0;
  std::int64_t num_output_tokens = 0;
  std::int64_t num_graph_replays = 0;  // decode passes that ran as a CUDA graph
  SpeculationStats speculation;
  BlockStats blocks;
  // Blocks that sequences freed while they ran, because every layer has a sliding window that ends
  // after them.
  std::int64_t num_out_of_window_blocks = 0;
  TierStats host_tier;
  TierStats disk_tier;
  std::int64_t num_loading = 0;  // waiting sequences whose blocks are read from disk
};

struct ProfileEntry {
  std::int64_t calls = 0;
  double seconds = 0;  // children included
};

namespace api {
class LLM;
}  // namespace api

class LLM {
 public:
  // Called on the engine's thread for every update of a request; the last update of each sample has
  // `finish`. Must not block, and may call only submit() and abort() of the LLM. A request whose
  // callback throws is aborted.
  using Callback = std::function<void(const Update& update)>;

  // Opens a GGUF file or a Hugging Face folder. Throws Error when the model cannot be loaded or the
  // configuration is invalid.
  explicit LLM(const std::filesystem::path& model, const LlmConfig& config = {});
  LLM(const LLM&) = delete;
  LLM& operator=(const LLM&) = delete;
  ~LLM();  // running requests finish with FinishReason::Abort

  // Blocks until all prompts have finished; outputs are in the order of the prompts. Throws Error
  // when a request is invalid.
  std::vector<Output> generate(const std::vector<Prompt>& prompts,
                               const SamplingParams& params = {});
  std::vector<Output> generate(const std::vector<Prompt>& prompts,
                               const std::vector<SamplingParams>& params);  // one per prompt

  // Queues a request. Each of its samples finishes exactly once. Throws Error when it is invalid.
  RequestId submit(const Prompt& prompt,
                   const SamplingParams& params,
                   Callback callback,
                   const SubmitOptions& options = {});
  // Aborts a running request at the next step; no effect on a finished one.
  void abort(RequestId request);

  // Reads an adapter and adds it, while requests run. Throws Error when the name is taken or the
  // adapter does not fit the model.
  AdapterInfo load_adapter(const AdapterSource& source);
  // New requests cannot name the adapter any more; running ones finish with it, then its memory is
  // freed. False: no adapter has that name.
  bool unload_adapter(const std::string& name);
  std::vector<AdapterInfo> adapters() const;  // in order of loading

  // Saves a running sequence with its KV cache to a file; restore() continues it in any process
  // with the same model and graft version. Both wait for the current step. Throw Error.
  void save(SequenceId id, const std::filesystem::path& path);
  RequestId restore(const std::filesystem::path& path, Callback callback);

  // The embedding of a text, normalized to length 1. Batched with other requests; blocks until
  // done. Throws Error, and Failure when the model fails.
  std::vector<float> embed(const Prompt& text, Pooling pooling = Pooling::Mean);

  // Decodes an image file (PNG, JPEG, WebP, GIF or BMP) and prepares it for the model. Throws Error
  // for other bytes, and for models without a vision tower.
  std::shared_ptr<const vision::PreparedImage> prepare_image(
      const std::vector<std::byte>& file) const;

  // False when the checkpoint has no tokenizer: prompts must be token ids, updates have no text,
  // and the next two throw Error.
  bool has_tokenizer() const;
  // As text prompts are encoded: with the model's BOS and EOS, and text that equals a special token
  // becomes that token.
  std::vector<TokenId> encode(std::string_view text) const;
  // Without special tokens unless `keep_special`. Ids outside the vocabulary are ignored.
  std::string decode(const std::vector<TokenId>& tokens, bool keep_special = false) const;

  EngineConfig config() const;    // with defaults resolved
  EngineStats stats() const;      // as of the last step
  std::string plan_text() const;  // a table: operator and device of every module
  // Accumulated time of every module by name since loading; empty without LlmConfig::profile. Waits
  // for the current step.
  std::map<std::string, ProfileEntry> profile();

 private:
  std::unique_ptr<api::LLM> llm_;
};

}  // namespace graft
