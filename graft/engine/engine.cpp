#include "graft/engine/engine.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/out_of_memory.h"
#include "graft/base/text/units.h"
#include "graft/engine/snapshots/output_text.h"
#include "graft/engine/speculation/sequence_speculation.h"
#include "graft/models/config/model_config.h"
#include "graft/ops/experts/hybrid_experts.h"

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

// The most workspace that a GPU has needed for a pass so far.
std::uint64_t gpu_workspace(const models::Model& model) {
  std::uint64_t most = 0;
  for (const auto& [device, bytes] : model.workspace_bytes())
    if (device != kCpu) most = std::max<std::uint64_t>(most, bytes);
  return most;
}

// The size of steps for max_num_batched_tokens 0. With streamed experts the workspace of a step may
// take a quarter of the free memory; a step of the usual size shows how much a token needs. (The
// ring that experts are copied to also takes memory in that step, but not per token.)
std::int64_t choose_batched_tokens(models::OpenModel& open, const EngineConfig& config) {
  if (plan::stream_from(open.plan()) == 0) return kBatchedTokens;
  const std::int64_t num_tokens = warm_up(open, kBatchedTokens, config.max_num_seqs);
  const std::uint64_t per_token =
      gpu_workspace(open.model()) / static_cast<std::uint64_t>(num_tokens) + 1;
  const auto fitting = static_cast<std::int64_t>(gpu_memory_left(open) / 4 / per_token);
  const std::int64_t useful =
      config.max_model_len > 0
          ? std::max(config.max_model_len * config.max_num_seqs, kBatchedTokens)
          : kMaxStreamedTokens;
  return std::clamp(fitting / 1024 * 1024, kBatchedTokens, std::min(useful, kMaxStreamedTokens));
}

// Snapshots of states beside the prefix cache, if memory allows: as many as sequences, 4 at least.
constexpr std::int64_t kMinSnapshots = 4;
// The share of the free memory that recurrent states may take; the rest is for keys and values.
constexpr double kMaxStateShare = 0.25;

// Slots of recurrent states. Where memory is scarce there are fewer snapshots first, then fewer
// running sequences: config.max_num_seqs is lowered. 0: the model has no such states.
std::int64_t choose_state_slots(models::OpenModel& open, EngineConfig& config) {
  const models::Model& model = open.model();
  if (!model.has_states() || config.max_num_seqs < 1) return 0;
  const std::int64_t num_snapshots =
      config.enable_prefix_caching ? std::max(config.max_num_seqs, kMinSnapshots) : 1;
  std::int64_t num_slots = config.max_num_seqs + num_snapshots;
  for (const auto& [device, bytes] : model.state_bytes_by_device()) {
    const std::uint64_t available = open.memory_left(device);
    if (available == 0) continue;  // unknown
    const double usable =
        static_cast<double>(available) * config.gpu_memory_utilization * kMaxStateShare;
    const auto fitting = static_cast<std::int64_t>(usable / static_cast<double>(bytes));
    if (fitting < 2) {
      fail_out_of_memory("out of memory for recurrent states: ", bytes_text(available),
                         " available on ", to_string(device), ", of which they may take a quarter;",
                         " a sequence needs ", bytes_text(bytes));
    }
    num_slots = std::min(num_slots, fitting);
  }
  const std::int64_t least = std::min(kMinSnapshots, num_slots / 2);
  config.max_num_seqs = std::min(config.max_num_seqs, num_slots - std::min(least, num_snapshots));
  return num_slots;
}

EngineConfig resolve_for(models::OpenModel& open,
                         EngineConfig config,
                         std::int64_t& num_state_slots) {
  const models::Model& model = open.model();
  num_state_slots = choose_state_slots(open, config);
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
  std::map<Device, std::size_t> states = model.state_bytes_by_device();
  for (const auto& [device, bytes] : model.cache_bytes_by_device()) {
    std::uint64_t left = open.memory_left(device);
    if (device == kCpu) left -= std::min(left, config.kv_host_bytes);
    const std::uint64_t available =
        left -
        std::min<std::uint64_t>(left, states[device] * static_cast<std::uint64_t>(num_state_slots));
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

}  // namespace

Engine::Engine(models::OpenModel& model,
               const tokenizer::Tokenizer* tokenizer,
               const EngineConfig& config)
    : open_(model),
      tokenizer_(tokenizer),
      config_(resolve_for(model, config, num_state_slots_)),
      eos_token_ids_(
          eos_token_ids_of(model.source().config(), tokenizer, model.model().vocab_size())),
      grammars_(tokenizer == nullptr ? nullptr
                                     : std::make_unique<grammar::GrammarCache>(
                                           *tokenizer, model.model().vocab_size(), eos_token_ids_)),
      blocks_(
          config_.num_kvcache_blocks, config_.kvcache_block_size, config_.enable_prefix_caching),
      states_(num_state_slots_ == 0
                  ? nullptr
                  : std::make_unique<StateSlots>(num_state_slots_, config_.max_num_seqs)),
      scheduler_(config_,
                 blocks_,
                 ops::min_streamed_rows(plan::stream_from(model.plan())),
                 model.model().long_rope_from(),
                 states_.get()),
      runner_(model.model()),
      adapters_(model),
      speculator_(model.model().vocab_size()) {
  check_speculation({});
  scheduler_.use_window(open_.blueprint().attention_window());
  open_.model().enforce_eager(config_.enforce_eager);
  if (states_ != nullptr) open_.model().allocate_states(num_state_slots_);
  open_.model().allocate_cache(config_.num_kvcache_blocks, config_.kvcache_block_size);
  open_tiers();
}

Engine::~Engine() {
  close_tiers();
}

bool Engine::has_work() const {
  return !scheduler_.is_idle() || !pending_.empty() || in_flight_.has_value() ||
         (tiers_ != nullptr && (tiers_->num_queued() > 0 || !tier_copies_.empty()));
}

void Engine::check(const Request& request) const {
  const std::int64_t vocab_size = open_.model().vocab_size();
  validate(request.params, vocab_size);
  check_speculation(request.params);
  if (!has_allowed_token(request.params, eos_token_ids_, vocab_size)) {
    fail(
        "every token is masked: allowed_token_ids and bad_words leave no token, or only EOS and "
        "stop tokens, which min_tokens masks");
  }
  check_images(request);
  auto length = static_cast<std::int64_t>(request.prompt.size());
  for (const std::int64_t count : image_token_counts(request))
    length += count - 1;
  if (length == 0) fail("the prompt is empty");
  for (const TokenId token : request.prompt) {
    if (token < 0 || token >= vocab_size)
      fail("prompt token ", token, " is out of range: the vocabulary has ", vocab_size, " tokens");
  }
  if (length >= config_.max_model_len) {
    fail("the prompt has ", length, " tokens, max_model_len is ", config_.max_model_len,
         ": no room is left for output tokens");
  }
  if (!scheduler_.can_hold(length)) {
    fail("the prompt has ", length, " tokens, the KV cache holds ",
         blocks_.num_blocks() * blocks_.block_tokens());
  }
  if (request.params.n > config_.max_num_seqs)
    fail("n is ", request.params.n, ", max_num_seqs is ", config_.max_num_seqs);
  const char* text = what_needs_tokenizer(request.params);
  if (tokenizer_ == nullptr && text != nullptr)
    fail(text, " need a tokenizer, but the model has none");
  new_matcher(request.params);  // compiles the grammar, on the thread of the caller
}

RequestId Engine::add(Request request) {
  check(request);
  auto sequence = std::make_shared<Sequence>();
  sequence->id = {.request = new_id(request.id), .sample = 0};
  sequence->seed = request.params.seed.value_or(seeds_());
  sequence->client = share_of(request.client, request.adapter);
  sequence->priority = request.priority;
  sequence->adapter = std::move(request.adapter);
  sequence->table = salted_table(salt_with(request.cache_salt, sequence->adapter));
  set_prompt(request, *sequence);
  sequence->params = std::move(request.params);
  sequence->matcher = new_matcher(sequence->params);
  if (request.pooling) sequence->pooler = std::make_unique<Pooler>(*request.pooling);
  return add_sequence(std::move(sequence)).id.request;
}

RequestId Engine::new_id(RequestId requested) {
  const RequestId id = requested == 0 ? next_request_ : requested;
  next_request_ = std::max(next_request_, id + 1);
  return id;
}

Sequence& Engine::add_sequence(std::shared_ptr<Sequence> owned) {
  Sequence& sequence = *owned;
  sequence.arrival_order = next_arrival_++;
  sequence.arrived = Clock::now();
  if (!sequence.is_embedding()) {
    sequence.detokenizer = new_detokenizer(sequence.params);
    sequence.speculation = Speculator::start(speculation_of(sequence.params));
  }
  const bool has_line_limits = sequence.params.min_indent > 0 || sequence.params.max_line_ms;
  if (has_line_limits) sequence.lines.emplace(sequence.params);
  sequences_.emplace(sequence.id, std::move(owned));
  scheduler_.add(sequence);
  return sequence;
}

std::unique_ptr<tokenizer::Detokenizer> Engine::new_detokenizer(
    const SamplingParams& params) const {
  return tokenizer_ == nullptr ? nullptr : make_detokenizer(*tokenizer_, params);
}

std::optional<grammar::OutputMatcher> Engine::new_matcher(const SamplingParams& params) const {
  if (!params.structured_output) return std::nullopt;
  if (grammars_ == nullptr) fail("structured output needs a tokenizer, but the model has none");
  try {
    return grammars_->matcher(*params.structured_output);
  } catch (const grammar::GrammarError& error) {
    throw grammar::GrammarError(str("structured output: ", error.what()));
  }
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

void Engine::set_totals(const Sequence& sequence, Update& update) {
  update.num_prompt = sequence.num_prompt;
  update.num_cached = sequence.num_cached;
  update.num_output = sequence.num_known_output();
  if (sequence.speculation == nullptr) return;
  update.num_draft_tokens = sequence.speculation->num_draft_tokens;
  update.num_accepted_tokens = sequence.speculation->num_accepted_tokens;
}

void Engine::finish(Sequence& sequence, Finish reason, Update update) {
  if (sequence.detokenizer) {
    std::string rest = sequence.detokenizer->finish();
    if (sequence.lines) sequence.lines->cut(rest, 0);
    update.text += rest;
  }
  update.finish = std::move(reason);
  set_totals(sequence, update);
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

void Engine::add_adapter(const models::Adapter& adapter) {
  settle();
  adapters_.add(adapter);
}

bool Engine::remove_adapter(const std::string& name) {
  const bool is_removed = adapters_.remove(name);
  free_adapters();
  return is_removed;
}

void Engine::free_adapters() {
  if (!adapters_.has_unused()) return;
  settle();
  adapters_.free_unused();
}

void Engine::release_idle_memory() {
  settle();
  finish_storing();
  const std::vector<BlockId> ids = blocks_.evict_free();
  for (std::size_t first = 0; first < ids.size();) {
    std::size_t end = first + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1)
      ++end;
    open_.model().release_blocks(ids[first], static_cast<std::int64_t>(end - first));
    first = end;
  }
  if (states_ == nullptr) return;
  states_->drop_snapshots();
  for (const SlotId slot : states_->free_slots())
    open_.model().release_states(slot, 1);
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
          .speculation = speculator_.stats(),
          .blocks = blocks_.stats(),
          .num_out_of_window_blocks = blocks_.num_released(),
          .host_tier = kv_tiers_ ? kv_tiers_->host_stats() : TierStats(),
          .disk_tier = kv_tiers_ ? kv_tiers_->disk_stats() : TierStats(),
          .num_loading = tiers_ ? scheduler_.num_loading() : 0};
}

}  // namespace graft::engine
