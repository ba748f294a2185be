// Continuous batching: each step runs one batch of tokens from many requests through the model,
// samples the next tokens and returns the new output. Not thread-safe; graft/api adds the thread.
//
// Where a device samples and needs nothing else from the host, one step is in flight: the next one
// is scheduled and started before the tokens of the one before are read. Its sequences may turn out
// to have ended; then its tokens for them are ignored.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "graft/engine/adapters/adapters.h"
#include "graft/engine/block_manager.h"
#include "graft/engine/config.h"
#include "graft/engine/request.h"
#include "graft/engine/runner.h"
#include "graft/engine/sampler.h"
#include "graft/engine/sampling_params.h"
#include "graft/engine/scheduler.h"
#include "graft/engine/sequence.h"
#include "graft/engine/snapshots/snapshot.h"
#include "graft/engine/speculation/speculator.h"
#include "graft/engine/states/state_slots.h"
#include "graft/engine/tiers/block_memory.h"
#include "graft/engine/tiers/kv_tiers.h"
#include "graft/engine/tiers/sequence_tiers.h"
#include "graft/engine/tiers/tier_entry.h"
#include "graft/grammar/output_matcher.h"
#include "graft/models/open_model.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::engine {

struct Snapshot;

class Engine {
 public:
  // Allocates the KV cache. `tokenizer` may be null: then updates have no text, and stop strings
  // are rejected. Both must outlive the engine. Throws Error for an invalid configuration.
  Engine(models::OpenModel& model,
         const tokenizer::Tokenizer* tokenizer,
         const EngineConfig& config);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // Throws Error when the request can never run: invalid parameters, an empty prompt, or a prompt
  // longer than max_model_len or the whole KV cache. Thread-safe.
  void check(const Request& request) const;
  RequestId add(Request request);  // calls check()
  // All its sequences finish with FinishReason::Abort in the next step's updates. False when the
  // request has already finished.
  bool abort(RequestId request);

  // Stops computing a request until resume(), for a consumer that is behind; it holds no slot and
  // no blocks meanwhile, and its output does not change. No effect on a finished request.
  void pause(RequestId request);
  void resume(RequestId request);

  // Starts one batch and returns the updates of the last one that has ended, none when there is
  // nothing to do.
  std::vector<Update> step();
  bool has_work() const;

  // Writes the state of a sequence and its KV cache blocks to a file; the sequence keeps running.
  // Throws UnknownSequence when it has finished, Error when the file cannot be written.
  void save(SequenceId id, const std::filesystem::path& path);
  // Adds a request with one sequence that continues from the saved state. `id` as Request::id.
  // Throws Error when the file is damaged or belongs to another model or graft version.
  RequestId restore(const std::filesystem::path& path, RequestId id = 0);
  // The same with what read_snapshot() returned; `client` as Request::client, `where` begins the
  // messages.
  RequestId restore(Snapshot snapshot,
                    const std::string& where,
                    RequestId id = 0,
                    std::uint64_t client = 0);

  // Releases the memory of free blocks to the system and evicts the prefixes cached in them. Tiers
  // below the KV cache keep them.
  void release_idle_memory();

  // The adapters that requests may hold. Adding and removing waits for the step in flight; a
  // removed adapter stays until the last request that holds it has ended.
  const Adapters& adapters() const { return adapters_; }
  void add_adapter(const models::Adapter& adapter);
  bool remove_adapter(const std::string& name);

  const EngineConfig& config() const { return config_; }
  EngineStats stats() const;
  KvTiers* tiers() { return kv_tiers_.get(); }  // null: none

 private:
  // One token to sample.
  struct Sample {
    Sequence* sequence = nullptr;
    std::int64_t row = 0;    // of the step's logits
    bool is_shared = false;  // several sequences sample from the row: copy before modifying it
    std::optional<TokenId> token = {};
    std::optional<TokenLogprobs> logprobs = {};
    std::span<const TokenId> drafts = {};  // guessed, of the step's row and those after it
    std::int64_t num_right = 0;            // of them, before this row

    // With the tokens that the device sampled; -1: sampling failed.
    void use_token_of(std::span<const TokenId> tokens) {
      const TokenId sampled = tokens[static_cast<std::size_t>(row)];
      if (sampled >= 0) token = sampled;
    }
    // Whether the guess for this row is right.
    bool has_right_draft() const {
      const auto at = static_cast<std::size_t>(num_right);
      return at < drafts.size() && token == drafts[at];
    }
  };

  // A started step.
  struct Step {
    struct Row {
      std::shared_ptr<Sequence> sequence;  // may have ended since
      bool is_complete = false;            // its next token is sampled
      std::int64_t num_computed = 0;       // tokens of the sequence after the step
      SequenceLogits logits;
      std::vector<TokenId> drafts = {};  // guessed tokens, whose rows follow
    };
    std::vector<Row> rows;
    bool is_sampled = false;    // by the device; otherwise the logits are on the host
    bool is_unsampled = false;  // sample_step() follows
  };

  // A step whose time automatic speculation records.
  struct DecodeStep {
    std::int64_t num_sequences = 0;
    std::int64_t num_drafts = 0;  // guessed tokens
  };

  // Blocks on their way to or from the memory of tier entries.
  struct TierCopy {
    std::uint64_t copy = 0;  // of the model's BlockTransfer
    bool is_load = false;
    std::vector<TierEntryPtr> entries;
  };

  // images of requests (images/engine_images.cpp)
  std::vector<std::int64_t> image_token_counts(const Request& request) const;
  std::vector<TokenId> tokens_to_check(const Snapshot& snapshot) const;
  void set_images(std::vector<SequenceImage> images, Sequence& sequence) const;
  void check_images(const Request& request) const;
  void set_prompt(Request& request, Sequence& sequence) const;
  void encode_images(const Schedule& schedule);
  static void release_features(Sequence& sequence);
  RequestId new_id(RequestId requested);
  std::vector<Sequence*> sequences_of(RequestId request);
  Sequence& add_sequence(std::shared_ptr<Sequence> owned);
  std::unique_ptr<tokenizer::Detokenizer> new_detokenizer(const SamplingParams& params) const;
  std::optional<grammar::OutputMatcher> new_matcher(const SamplingParams& params) const;
  grammar::TokenBits allowed_tokens(const Sequence& sequence) const;
  bool cut_lines(Sequence& sequence, std::string& text) const;
  void follow_grammar(Sequence& sequence, TokenId token, std::optional<Finish>& stop) const;
  std::string sampling_failure(const Sequence& sequence) const;
  void check_files() const;
  void run_step();
  std::optional<Step> start(const Schedule& schedule);
  void mark_in_flight(Step::Row& row, std::int64_t num_tokens);
  bool can_run_ahead(const Step& step) const;
  void finish_in_flight();
  void free_adapters();
  void settle();  // finishes the step in flight; its failure fails the running sequences
  SamplingContext context_of(Sequence& sequence) const;
  void finish_too_long(Sequence& sequence);
  void collect_prompt_logprobs(Sequence& sequence, const SequenceLogits& rows);
  void finish_embedding(Sequence& sequence);
  void add_samples(Sequence& sequence, std::int64_t row, std::vector<Sample>& samples);
  std::vector<Sample> samples_of(const Step& step, std::span<const TokenId> tokens);
  void run_sampler(Sample& sample);
  void sample_and_append(std::vector<Sample>& samples, bool is_sampled);
  void append_token(Sample& sample);
  std::optional<Finish> check_stop(const Sequence& sequence) const;
  // Whether this many output tokens reach max_tokens or max_model_len.
  bool is_full(const Sequence& sequence, std::int64_t num_output) const;
  static void set_totals(const Sequence& sequence, Update& update);
  void finish(Sequence& sequence, Finish reason, Update update);
  // speculation/engine_speculation.cpp
  const Speculation& speculation_of(const SamplingParams& params) const;
  void check_speculation(const SamplingParams& params) const;
  std::int64_t max_drafts(const Sequence& sequence) const;
  void add_drafts(Schedule& schedule);
  static bool speculates(const Step::Row& row);
  std::vector<Sample> verified_samples(const std::vector<Sample>& samples,
                                       std::span<const TokenId> tokens);
  void merge_updates(std::size_t first);
  static std::optional<DecodeStep> decode_step_of(const Schedule& schedule);
  void fail_running(const std::string& message);
  // sampling/engine_sampling.cpp
  bool can_sample_on_device(const Schedule& schedule);
  bool samples_later(const Schedule& schedule);
  ops::BatchSampling device_sampling(const Schedule& schedule);
  void sample_step(Step& step);
  void add_device_rows(Sequence& sequence,
                       std::int64_t num_output,
                       std::size_t num_drafts,
                       ops::BatchSampling& sampling) const;
  // tiers/engine_tiers.cpp
  void open_tiers();
  void close_tiers() noexcept;
  void queue_blocks(const Step& step);
  void store_blocks(double max_seconds);
  void start_saving(std::size_t max_blocks);
  void collect_copies(bool waits);
  void finish_storing();
  void discard_copies() noexcept;
  void store_after_step(double step_seconds);
  void load_blocks(const Schedule& schedule);
  void wait_for_tiers(const Schedule& schedule);
  void check_snapshot(const Snapshot& snapshot, const std::string& where);
  void restore_blocks(Sequence& sequence, const Snapshot& snapshot);
  bool restore_state(Sequence& sequence, std::span<const std::byte> state);

  models::OpenModel& open_;
  const tokenizer::Tokenizer* tokenizer_;
  std::int64_t num_state_slots_ = 0;  // before config_, whose initializer sets it
  EngineConfig config_;
  std::vector<TokenId> eos_token_ids_;
  std::unique_ptr<grammar::GrammarCache> grammars_;  // thread-safe; null: no tokenizer
  BlockManager blocks_;
  std::unique_ptr<StateSlots> states_;         // null: the model has no recurrent states
  std::unique_ptr<BlockMemory> block_memory_;  // null: no tiers below the KV cache
  std::unique_ptr<KvTiers> kv_tiers_;
  std::unique_ptr<SequenceTiers> tiers_;
  Scheduler scheduler_;
  Runner runner_;
  Adapters adapters_;
  Speculator speculator_;
  std::map<SequenceId, std::shared_ptr<Sequence>> sequences_;
  std::optional<Step> in_flight_;
  std::deque<TierCopy> tier_copies_;  // in progress, oldest first
  std::vector<Update> pending_;       // returned by the next step()
  std::mt19937_64 seeds_{std::random_device{}()};
  mutable std::uint64_t fingerprint_ = 0;  // of the weights; 0: not computed yet
  RequestId next_request_ = 1;
  std::uint64_t next_arrival_ = 0;
  std::int64_t num_steps_ = 0;
  std::int64_t num_computed_tokens_ = 0;
  std::int64_t num_output_tokens_ = 0;
};

}  // namespace graft::engine
