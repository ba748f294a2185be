#include "graft/engine/engine.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/engine/sampler.h"
#include "graft/models/config/model_config.h"

namespace graft::engine {
namespace {

// Warm-up batch limit: the logits of more sequences are allocated when first needed.
constexpr std::int64_t kMaxWarmUpSequences = 256;

// Of a step that streams experts: their weights cross PCIe once per step.
constexpr std::int64_t kMaxStreamedTokens = 16384;

bool is_on_cpu(const models::Model& model) {
  return std::ranges::all_of(model.cache_bytes_by_device(),
                             [](const auto& cache) { return cache.first == kCpu; });
}

// The least memory left on a GPU.
std::uint64_t gpu_memory_left(models::OpenModel& open) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [device, bytes] : open.model().cache_bytes_by_device())
    if (device != kCpu) least = std::min(least, open.memory_left(device));
  return least;
}

// Runs a step of this size, so that the workspace is allocated before the free GPU memory is
// measured for the KV cache. Returns the size, which the model's context may limit.
std::int64_t warm_up(models::OpenModel& open, std::int64_t num_tokens, std::int64_t num_sequences) {
  const std::int64_t context = open.blueprint().max_context;
  if (context > 0) num_tokens = std::min(num_tokens, context);
  open.model().warm_up(num_tokens, std::clamp<std::int64_t>(num_sequences, 1, kMaxWarmUpSequences));
  return num_tokens;
}

// The size of steps for max_num_batched_tokens 0. With streamed experts the steps are as large as a
// quarter of the free memory allows, which a step of the usual size shows.
std::int64_t choose_batched_tokens(models::OpenModel& open, const EngineConfig& config) {
  if (plan::stream_from(open.plan()) == 0) return kBatchedTokens;
  const std::uint64_t before = gpu_memory_left(open);
  const std::int64_t num_tokens = warm_up(open, kBatchedTokens, config.max_num_seqs);
  const std::uint64_t after = gpu_memory_left(open);
  const std::uint64_t per_token =
      (before - std::min(before, after)) / static_cast<std::uint64_t>(num_tokens) + 1;
  const auto fitting = static_cast<std::int64_t>(after / 4 / per_token);
  const std::int64_t useful =
      config.max_model_len > 0
          ? std::max(config.max_model_len * config.max_num_seqs, kBatchedTokens)
          : kMaxStreamedTokens;
  return std::clamp(fitting / 1024 * 1024, kBatchedTokens, std::min(useful, kMaxStreamedTokens));
}

EngineConfig resolve_for(models::OpenModel& open, const EngineConfig& config) {
  const models::Model& model = open.model();
  EngineLimits limits;
  if (!is_on_cpu(model)) {
    std::int64_t num_tokens = config.max_num_batched_tokens;
    if (num_tokens == 0) num_tokens = limits.batched_tokens = choose_batched_tokens(open, config);
    // The configuration is validated only in resolve().
    warm_up(open, std::max<std::int64_t>(num_tokens, 1), config.max_num_seqs);
  }
  limits.model_context = open.blueprint().max_context;
  limits.block_tokens = model.block_tokens();
  // The device that fits the fewest blocks limits all others.
  double min_blocks = std::numeric_limits<double>::infinity();
  for (const auto& [device, bytes] : model.cache_bytes_by_device()) {
    const std::uint64_t available = open.memory_left(device);
    const double blocks = static_cast<double>(available) / static_cast<double>(bytes);
    if (blocks >= min_blocks) continue;
    min_blocks = blocks;
    limits.bytes_per_token = bytes / static_cast<std::size_t>(model.block_tokens());
    limits.available_bytes = available;
  }
  return resolve(config, limits);
}

std::vector<TokenId> eos_token_ids_of(const models::ModelConfig& config,
                                      const tokenizer::Tokenizer* tokenizer,
                                      std::int64_t vocab_size) {
  std::vector<TokenId> tokens;
  const auto add = [&](std::int64_t id) {
    const auto token = static_cast<TokenId>(id);
    if (id >= 0 && id < vocab_size && std::ranges::find(tokens, token) == tokens.end())
      tokens.push_back(token);
  };
  for (const std::int64_t id : config.eos_token_ids)
    add(id);
  if (tokenizer != nullptr) {
    for (const TokenId id : tokenizer->end_tokens())
      add(id);
  }
  return tokens;
}

bool contains(std::span<const TokenId> tokens, TokenId token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

}  // namespace

Engine::Engine(models::OpenModel& model,
               const tokenizer::Tokenizer* tokenizer,
               const EngineConfig& config)
    : open_(model),
      tokenizer_(tokenizer),
      config_(resolve_for(model, config)),
      eos_token_ids_(
          eos_token_ids_of(model.source().config(), tokenizer, model.model().vocab_size())),
      blocks_(
          config_.num_kvcache_blocks, config_.kvcache_block_size, config_.enable_prefix_caching),
      scheduler_(config_, blocks_, plan::stream_from(model.plan())),
      runner_(model.model()) {
  open_.model().enforce_eager(config_.enforce_eager);
  open_.model().allocate_cache(config_.num_kvcache_blocks, config_.kvcache_block_size);
}

Engine::~Engine() = default;

void Engine::check(const Request& request) const {
  const std::int64_t vocab_size = open_.model().vocab_size();
  validate(request.params, vocab_size);
  if (!has_allowed_token(request.params, eos_token_ids_, vocab_size)) {
    fail(
        "every token is masked: allowed_token_ids and bad_words leave no token, or only EOS and "
        "stop tokens, which min_tokens masks");
  }
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  if (length == 0) fail("the prompt is empty");
  for (const TokenId token : request.prompt) {
    if (token < 0 || token >= vocab_size)
      fail("prompt token ", token, " is out of range: the vocabulary has ", vocab_size, " tokens");
  }
  if (length >= config_.max_model_len) {
    fail("the prompt has ", length, " tokens, max_model_len is ", config_.max_model_len,
         ": no room is left for output tokens");
  }
  if (blocks_.blocks_for(length) > blocks_.num_blocks()) {
    fail("the prompt has ", length, " tokens, the KV cache holds ",
         blocks_.num_blocks() * blocks_.block_tokens());
  }
  if (request.params.n > config_.max_num_seqs)
    fail("n is ", request.params.n, ", max_num_seqs is ", config_.max_num_seqs);
  if (tokenizer_ == nullptr && !request.params.stop.empty())
    fail("stop strings need a tokenizer, but the model has none");
}

RequestId Engine::add(Request request) {
  check(request);
  auto sequence = std::make_unique<Sequence>();
  sequence->id = {.request = new_id(request.id), .sample = 0};
  sequence->seed = request.params.seed.value_or(seeds_());
  sequence->client = request.client;
  sequence->priority = request.priority;
  sequence->table = salted_table(request.cache_salt);
  sequence->num_prompt = static_cast<std::int64_t>(request.prompt.size());
  sequence->tokens = std::move(request.prompt);
  sequence->params = std::move(request.params);
  if (request.pooling) sequence->pooler = std::make_unique<Pooler>(*request.pooling);
  return add_sequence(std::move(sequence)).id.request;
}

RequestId Engine::new_id(RequestId requested) {
  const RequestId id = requested == 0 ? next_request_ : requested;
  next_request_ = std::max(next_request_, id + 1);
  return id;
}

Sequence& Engine::add_sequence(std::unique_ptr<Sequence> owned) {
  Sequence& sequence = *owned;
  sequence.arrival_order = next_arrival_++;
  sequence.arrived = Clock::now();
  if (!sequence.is_embedding()) sequence.detokenizer = new_detokenizer(sequence.params);
  sequences_.emplace(sequence.id, std::move(owned));
  scheduler_.add(sequence);
  return sequence;
}

std::unique_ptr<tokenizer::Detokenizer> Engine::new_detokenizer(
    const SamplingParams& params) const {
  if (tokenizer_ == nullptr) return nullptr;
  tokenizer::DetokenizerOptions options;
  options.keep_special = !params.skip_special_tokens;
  options.keep_stop = params.include_stop_str_in_output;
  // Stop strings are ignored before min_tokens; append_token() sets them then.
  if (params.min_tokens == 0) options.stops = params.stop;
  return std::make_unique<tokenizer::Detokenizer>(*tokenizer_, std::move(options));
}

std::vector<Sequence*> Engine::sequences_of(RequestId request) {
  std::vector<Sequence*> found;
  for (auto entry = sequences_.lower_bound({.request = request, .sample = 0});
       entry != sequences_.end() && entry->first.request == request; ++entry)
    found.push_back(entry->second.get());
  return found;
}

void Engine::pause(RequestId request) {
  for (Sequence* sequence : sequences_of(request))
    scheduler_.pause(*sequence);
}

void Engine::resume(RequestId request) {
  for (Sequence* sequence : sequences_of(request))
    scheduler_.resume(*sequence);
}

bool Engine::abort(RequestId request) {
  const std::vector<Sequence*> found = sequences_of(request);
  for (Sequence* sequence : found)
    finish(*sequence, {.reason = FinishReason::Abort}, {.id = sequence->id});
  return !found.empty();
}

std::vector<Update> Engine::step() {
  const Schedule schedule = scheduler_.schedule();
  finish_too_long(schedule);
  if (!schedule.empty()) {
    try {
      check_files();
      const std::vector<SequenceLogits>& rows = runner_.run(schedule);
      check_files();
      commit(schedule, rows);
    } catch (const std::exception& error) {
      fail_running(error.what());
    }
  }
  return std::exchange(pending_, {});
}

// Weights that were read from a damaged file are zeros.
void Engine::check_files() const {
  if (const auto damage = open_.damage()) throw Failure(*damage);
}

void Engine::finish_too_long(const Schedule& schedule) {
  for (Sequence* sequence : schedule.too_long) {
    finish(*sequence,
           {.reason = FinishReason::Length,
            .message = str("the KV cache is full: it holds ",
                           blocks_.num_blocks() * blocks_.block_tokens(), " tokens")},
           {.id = sequence->id});
  }
}

// The step failed: drop the prefix-cache entries it registered and fail all running sequences.
void Engine::fail_running(const std::string& message) {
  blocks_.invalidate_prefix_cache();
  std::vector<Sequence*> running;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->state == SequenceState::Running) running.push_back(sequence.get());
  }
  for (Sequence* sequence : running)
    finish(*sequence, {.reason = FinishReason::Error, .message = message}, {.id = sequence->id});
}

void Engine::commit(const Schedule& schedule, const std::vector<SequenceLogits>& rows) {
  ++num_steps_;
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < schedule.sequences.size(); ++i) {
    const ScheduledSequence& scheduled = schedule.sequences[i];
    Sequence& sequence = *scheduled.sequence;
    const bool is_complete = scheduled.is_complete();
    collect_prompt_logprobs(sequence, rows[i]);
    sequence.num_computed += scheduled.num_tokens;
    num_computed_tokens_ += scheduled.num_tokens;
    if (!is_complete) continue;
    if (sequence.is_embedding()) {
      finish_embedding(sequence);
    } else {
      add_samples(sequence, rows[i].first_row + rows[i].num_rows - 1, samples);
    }
  }
  open_.pool().parallel_for(samples.size(), [&](std::size_t i) { run_sampler(samples[i]); });
  for (Sample& sample : samples)
    append_token(sample);
}

void Engine::collect_prompt_logprobs(Sequence& sequence, const SequenceLogits& rows) {
  if (!sequence.params.prompt_logprobs) return;
  for (std::int64_t i = 0; i < rows.num_rows; ++i) {
    const std::int64_t position = rows.first_position + i + 1;  // of the token the row predicts
    const auto num_have = static_cast<std::int64_t>(sequence.prompt_logprobs.size());
    if (position >= sequence.num_prompt || position != num_have + 1) continue;
    sequence.prompt_logprobs.push_back(logprobs_of(
        runner_.logits(rows.first_row + i), sequence.tokens[static_cast<std::size_t>(position)],
        *sequence.params.prompt_logprobs));
  }
}

void Engine::finish_embedding(Sequence& sequence) {
  Update update = {.id = sequence.id};
  update.embedding = sequence.pooler->unit_vector();
  finish(sequence, {.reason = FinishReason::Stop}, std::move(update));
}

// After the prompt of a request with n > 1, forks the sequence into n that share its blocks.
void Engine::add_samples(Sequence& sequence, std::int64_t row, std::vector<Sample>& samples) {
  const std::int64_t num_samples = std::exchange(sequence.params.n, 1);
  samples.push_back({.sequence = &sequence, .row = row, .is_shared = num_samples > 1});
  for (std::int64_t sample = 1; sample < num_samples; ++sample) {
    auto fork = std::make_unique<Sequence>();
    fork->id = {.request = sequence.id.request, .sample = sample};
    fork->params = sequence.params;
    fork->seed = sequence.seed + static_cast<std::uint64_t>(sample);
    fork->client = sequence.client;
    fork->priority = sequence.priority;
    fork->arrival_order = sequence.arrival_order;
    fork->num_prompt = sequence.num_prompt;
    fork->tokens = sequence.tokens;
    fork->num_computed = sequence.num_computed;
    fork->table = blocks_.fork(sequence.table);
    fork->detokenizer = new_detokenizer(sequence.params);
    fork->num_cached = sequence.num_cached;
    fork->arrived = sequence.arrived;
    fork->first_scheduled = sequence.first_scheduled;
    fork->prompt_logprobs = sequence.prompt_logprobs;
    scheduler_.add_fork(*fork);
    samples.push_back({.sequence = fork.get(), .row = row, .is_shared = true});
    sequences_.emplace(fork->id, std::move(fork));
  }
}

void Engine::run_sampler(Sample& sample) {
  const Sequence& sequence = *sample.sequence;
  const SamplingContext context = {
      .params = &sequence.params,
      .prompt = std::span(sequence.tokens).first(static_cast<std::size_t>(sequence.num_prompt)),
      .output = sequence.output(),
      .eos_token_ids = eos_token_ids_,
      .seed = sequence.seed};
  if (runner_.has_top_k()) {
    sample.token = engine::sample(runner_.top_k(sample.row), context);
    return;
  }
  std::span<float> logits = runner_.logits(sample.row);
  std::vector<float> raw;
  if (sample.is_shared || sequence.params.logprobs) raw.assign(logits.begin(), logits.end());
  std::vector<float> copy;
  if (sample.is_shared) {
    copy = raw;
    logits = copy;
  }
  sample.token = engine::sample(logits, context);
  if (sample.token && sequence.params.logprobs)
    sample.logprobs = logprobs_of(raw, *sample.token, *sequence.params.logprobs);
}

void Engine::append_token(Sample& sample) {
  Sequence& sequence = *sample.sequence;
  Update update = {.id = sequence.id};
  if (!sample.token) {
    finish(sequence,
           {.reason = FinishReason::Error,
            .message = "sampling failed: every token is masked, or the logits are NaN"},
           std::move(update));
    return;
  }
  sequence.tokens.push_back(*sample.token);
  ++num_output_tokens_;
  if (!sequence.first_token) sequence.first_token = Clock::now();
  update.tokens.push_back(*sample.token);
  update.num_prompt = sequence.num_prompt;
  update.num_cached = sequence.num_cached;
  update.num_output = sequence.num_output();
  if (sample.logprobs) update.logprobs.push_back(*std::move(sample.logprobs));

  std::optional<Finish> stop = check_stop(sequence);
  const bool is_stop_token = stop && stop->stop_token;
  if (sequence.detokenizer && !is_stop_token) {
    update.text = sequence.detokenizer->push(*sample.token);
    if (const auto matched = sequence.detokenizer->stop()) {
      stop = {.reason = FinishReason::Stop, .stop_text = sequence.params.stop[*matched]};
    } else if (sequence.num_output() == sequence.params.min_tokens) {
      sequence.detokenizer->set_stops(sequence.params.stop);
    }
  }
  if (stop) {
    finish(sequence, *std::move(stop), std::move(update));
  } else {
    pending_.push_back(std::move(update));
  }
}

std::optional<Finish> Engine::check_stop(const Sequence& sequence) const {
  const SamplingParams& params = sequence.params;
  const TokenId token = sequence.tokens.back();
  const bool is_eos = !params.ignore_eos && contains(eos_token_ids_, token);
  if (is_eos || contains(params.stop_token_ids, token))
    return Finish{.reason = FinishReason::Stop, .stop_token = token};
  if (params.max_tokens && sequence.num_output() >= *params.max_tokens)
    return Finish{.reason = FinishReason::Length};
  if (sequence.num_tokens() >= config_.max_model_len) {
    return Finish{.reason = FinishReason::Length,
                  .message = str("max_model_len of ", config_.max_model_len, " tokens reached")};
  }
  return std::nullopt;
}

void Engine::finish(Sequence& sequence, Finish reason, Update update) {
  if (sequence.detokenizer) update.text += sequence.detokenizer->finish();
  update.finish = std::move(reason);
  update.num_prompt = sequence.num_prompt;
  update.num_cached = sequence.num_cached;
  update.num_output = sequence.num_output();
  update.prompt_logprobs = std::move(sequence.prompt_logprobs);
  update.arrived = sequence.arrived;
  update.first_scheduled = sequence.first_scheduled;
  update.first_token = sequence.first_token;
  const SequenceId id = sequence.id;
  // Samples it has not forked into yet finish with it.
  for (std::int64_t sample = 1; sample < sequence.params.n; ++sample) {
    pending_.push_back(update);
    pending_.back().id.sample = sample;
  }
  pending_.push_back(std::move(update));
  scheduler_.remove(sequence);
  sequences_.erase(id);
}

void Engine::release_idle_memory() {
  const std::vector<BlockId> ids = blocks_.evict_free();
  for (std::size_t first = 0; first < ids.size();) {
    std::size_t end = first + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1)
      ++end;
    open_.model().release_blocks(ids[first], static_cast<std::int64_t>(end - first));
    first = end;
  }
}

EngineStats Engine::stats() const {
  return {.num_running = scheduler_.num_running(),
          .num_waiting = scheduler_.num_waiting(),
          .num_preemptions = scheduler_.num_preemptions(),
          .num_queried_tokens = scheduler_.num_queried_tokens(),
          .num_hit_tokens = scheduler_.num_hit_tokens(),
          .num_steps = num_steps_,
          .num_computed_tokens = num_computed_tokens_,
          .num_output_tokens = num_output_tokens_,
          .num_graph_replays = open_.model().num_graph_replays(),
          .blocks = blocks_.stats()};
}

}  // namespace graft::engine
