// Many requests through one model: each step computes a batch of tokens, chooses the next ones and
// says what became of whom. One thread at a time; graft/api adds the thread.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "graft/engine/block_manager.h"
#include "graft/engine/config.h"
#include "graft/engine/request.h"
#include "graft/engine/runner.h"
#include "graft/engine/sampling_params.h"
#include "graft/engine/scheduler.h"
#include "graft/engine/sequence.h"
#include "graft/models/open_model.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::engine {

class Engine {
 public:
  // Allocates the cache. `tokenizer` may be null: then tokens in, tokens out, and stop strings are
  // refused. Both must outlive it. Throws Error for a configuration that cannot work.
  Engine(models::OpenModel& model,
         const tokenizer::Tokenizer* tokenizer,
         const EngineConfig& config);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // Throws Error when the request can never run: bad parameters, an empty prompt, a prompt that is
  // longer than max_model_len or than the whole cache. May be called from any thread.
  void check(const Request& request) const;
  RequestId add(Request request);  // checks it too
  // All samples of it end with FinishReason::Abort in the next step's updates. False when it has
  // ended already.
  bool abort(RequestId request);

  // One batch. Nothing to do: returns without updates.
  std::vector<Update> step();
  bool has_work() const { return !sequences_.empty() || !pending_.empty(); }

  // A sequence as it is now, with its part of the cache, to a file; it goes on running here. Throws
  // Error when it has ended, or when the file cannot be written.
  void save(SequenceId id, const std::filesystem::path& path) const;
  // A request of one sample that goes on where the file was saved. Throws Error for a file of
  // another model, another version or a damaged one.
  RequestId restore(const std::filesystem::path& path, RequestId wanted = 0);
  // The tokens of a running sequence.
  const Sequence* find(SequenceId id) const;

  // One vector for the whole text: the hidden states after the last layer, pooled, of length 1. It
  // is computed at once, in blocks that are free; nothing when too few are. Throws Error like
  // check(), and Failure when the model fails.
  std::optional<std::vector<float>> embed(const std::vector<TokenId>& tokens, Pooling pooling);

  // Gives the memory of blocks that nobody uses back to the system, with the prefixes in them.
  void release_idle_memory();

  const EngineConfig& config() const { return config_; }
  EngineStats stats() const;

 private:
  // One token to choose: the row of logits, and whether it must be copied before it is changed.
  struct Choice {
    Sequence* sequence = nullptr;
    std::int64_t row = 0;
    bool is_shared = false;
    std::optional<TokenId> token = {};
    std::optional<TokenLogprobs> logprobs = {};
  };

  RequestId new_id(RequestId wanted);
  Sequence& add_sequence(std::unique_ptr<Sequence> owned);
  std::unique_ptr<tokenizer::Detokenizer> new_text(const SamplingParams& params) const;
  void end_too_long(const Schedule& schedule);
  void commit(const Schedule& schedule, const std::vector<SequenceLogits>& rows);
  void collect_prompt_logprobs(Sequence& sequence, const SequenceLogits& rows);
  void add_choices(Sequence& sequence, std::int64_t row, std::vector<Choice>& choices);
  void choose(Choice& choice);
  void accept(Choice& choice);
  std::optional<Finish> end_of(const Sequence& sequence) const;
  void finish(Sequence& sequence, Finish reason, Update update);
  void fail_running(const std::string& message);
  void put_back(Sequence& sequence, std::span<const std::byte> blocks);

  models::OpenModel& open_;
  const tokenizer::Tokenizer* tokenizer_;
  EngineConfig config_;
  std::vector<TokenId> end_tokens_;
  BlockManager blocks_;
  Scheduler scheduler_;
  Runner runner_;
  std::map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  std::vector<Update> pending_;  // ends that no step has told yet
  std::mt19937_64 seeds_{std::random_device{}()};
  mutable std::uint64_t fingerprint_ = 0;  // of the model; 0: not computed yet
  RequestId next_request_ = 1;
  std::uint64_t next_arrival_ = 0;
  std::int64_t num_steps_ = 0;
  std::int64_t num_computed_tokens_ = 0;
  std::int64_t num_output_tokens_ = 0;
};

}  // namespace graft::engine
