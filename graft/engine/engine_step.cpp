// Engine::step: schedules, starts and finishes steps, and turns their tokens into updates.

#include <algorithm>
#include <chrono>
#include <utility>

#include "graft/base/error.h"
#include "graft/engine/engine.h"
#include "graft/engine/sampler.h"
#include "graft/engine/speculation/sequence_speculation.h"

namespace graft::engine {
namespace {

bool contains(std::span<const TokenId> tokens, TokenId token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

}  // namespace

std::vector<Update> Engine::step() {
  try {
    run_step();
    free_adapters();
  } catch (const std::exception& error) {
    fail_running(error.what());
  }
  return std::exchange(pending_, {});
}

void Engine::run_step() {
  const Clock::time_point began = Clock::now();
  const std::int64_t num_computed = num_computed_tokens_;
  if (in_flight_ && !can_run_ahead(*in_flight_)) finish_in_flight();
  Schedule schedule = scheduler_.schedule();
  add_drafts(schedule);
  const std::optional<DecodeStep> decodes = decode_step_of(schedule);
  wait_for_tiers(schedule);
  std::vector<std::shared_ptr<Sequence>> too_long;
  for (const Sequence* sequence : schedule.too_long)
    too_long.push_back(sequences_.at(sequence->id));
  std::optional<Step> next = start(schedule);
  finish_in_flight();
  if (next && next->is_unsampled) sample_step(*next);
  in_flight_ = std::move(next);
  if (in_flight_ && !can_run_ahead(*in_flight_)) finish_in_flight();
  for (const auto& sequence : too_long) {
    if (sequence->state != SequenceState::Finished) finish_too_long(*sequence);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  if (decodes) speculator_.record_step(decodes->num_sequences, decodes->num_drafts, seconds);
  if (kv_tiers_) kv_tiers_->record_prefill(num_computed_tokens_ - num_computed, seconds);
  store_after_step(seconds);
}

std::optional<Engine::Step> Engine::start(const Schedule& schedule) {
  load_blocks(schedule);
  if (schedule.empty()) return std::nullopt;
  check_files();
  const bool is_sampled = can_sample_on_device(schedule);
  const bool is_unsampled = is_sampled && samples_later(schedule);
  std::optional<ops::BatchSampling> sampling;
  if (is_sampled && !is_unsampled) sampling = device_sampling(schedule);
  encode_images(schedule);
  Step step = {.rows = {}, .is_sampled = is_sampled, .is_unsampled = is_unsampled};
  const std::vector<SequenceLogits> logits = is_unsampled
                                                 ? runner_.start_unsampled(schedule)
                                                 : runner_.start(schedule, std::move(sampling));
  for (std::size_t i = 0; i < schedule.sequences.size(); ++i) {
    const ScheduledSequence& scheduled = schedule.sequences[i];
    step.rows.push_back({.sequence = sequences_.at(scheduled.sequence->id),
                         .is_complete = scheduled.is_complete(),
                         .logits = logits[i],
                         .drafts = scheduled.drafts});
    mark_in_flight(step.rows.back(), scheduled.num_tokens);
  }
  return step;
}

void Engine::mark_in_flight(Step::Row& row, std::int64_t num_tokens) {
  Sequence& sequence = *row.sequence;
  sequence.num_computed += num_tokens;
  num_computed_tokens_ += num_tokens + static_cast<std::int64_t>(row.drafts.size());
  release_features(sequence);
  row.num_computed = sequence.num_computed;
  if (!row.is_complete || sequence.is_embedding()) return;
  ++sequence.num_in_flight;
  sequence.sampled_row = static_cast<std::int32_t>(row.logits.sampled_row());
  sequence.is_last_in_flight = is_full(sequence, sequence.num_output());
}

// Whether the next step can be started before the tokens of this one are known.
bool Engine::can_run_ahead(const Step& step) const {
  if (!step.is_sampled || !open_.model().can_run_ahead()) return false;
  return std::ranges::none_of(
      step.rows, [](const Step::Row& row) { return row.is_complete && speculates(row); });
}

// Weights that were read from a damaged file are zeros.
void Engine::check_files() const {
  if (const auto damage = open_.damage()) throw Failure(*damage);
}

void Engine::finish_too_long(Sequence& sequence) {
  finish(sequence,
         {.reason = FinishReason::Length,
          .message = str("the KV cache is full: it holds ",
                         blocks_.num_blocks() * blocks_.block_tokens(), " tokens")},
         {.id = sequence.id});
}

// The step failed: drop the prefix-cache entries it registered and fail all running sequences.
void Engine::fail_running(const std::string& message) {
  in_flight_.reset();
  open_.model().discard_started();
  discard_copies();
  if (states_ != nullptr) {
    scheduler_.discard_pending_snapshots();
    states_->drop_snapshots();
  }
  blocks_.invalidate_prefix_cache();
  std::vector<Sequence*> running;
  for (const auto& [id, sequence] : sequences_) {
    sequence->num_in_flight = 0;
    sequence->is_last_in_flight = false;
    if (sequence->state == SequenceState::Running) running.push_back(sequence.get());
  }
  for (Sequence* sequence : running)
    finish(*sequence, {.reason = FinishReason::Error, .message = message}, {.id = sequence->id});
}

void Engine::settle() {
  try {
    finish_in_flight();
  } catch (const std::exception& error) {
    fail_running(error.what());
  }
}

void Engine::finish_in_flight() {
  if (!in_flight_) return;
  const Step step = *std::exchange(in_flight_, std::nullopt);
  std::span<const TokenId> tokens;
  if (step.is_sampled) tokens = open_.model().finish();
  check_files();
  ++num_steps_;
  queue_blocks(step);
  const std::size_t first_update = pending_.size();
  std::vector<Sample> samples = samples_of(step, tokens);
  sample_and_append(samples, step.is_sampled);
  // One round for each guessed token that was right.
  int num_rounds = 1;
  while (!(samples = verified_samples(samples, tokens)).empty()) {
    sample_and_append(samples, step.is_sampled);
    ++num_rounds;
  }
  if (num_rounds > 1) merge_updates(first_update);
}

void Engine::sample_and_append(std::vector<Sample>& samples, bool is_sampled) {
  if (!is_sampled)
    open_.pool().parallel_for(samples.size(), [&](std::size_t i) { run_sampler(samples[i]); });
  for (Sample& sample : samples) {
    if (sample.has_right_draft()) speculator_.record_accepted(*sample.sequence, sample.num_right);
    append_token(sample);
  }
}

std::vector<Engine::Sample> Engine::samples_of(const Step& step, std::span<const TokenId> tokens) {
  std::vector<Sample> samples;
  for (const Step::Row& row : step.rows) {
    Sequence& sequence = *row.sequence;
    if (sequence.state == SequenceState::Finished) continue;
    collect_prompt_logprobs(sequence, row.logits);
    if (!row.is_complete) continue;
    if (!sequence.is_embedding()) --sequence.num_in_flight;
    if (sequence.num_in_flight == 0) sequence.is_last_in_flight = false;
    if (sequence.is_embedding()) {
      finish_embedding(sequence);
      continue;
    }
    const std::int64_t logits_row = row.logits.sampled_row();
    if (step.is_sampled) {
      samples.push_back({.sequence = &sequence, .row = logits_row});
      samples.back().use_token_of(tokens);
    } else {
      add_samples(sequence, logits_row, samples);
    }
    if (row.drafts.empty()) continue;
    samples.back().drafts = row.drafts;
    speculator_.record_drafted(sequence, static_cast<std::int64_t>(row.drafts.size()));
  }
  return samples;
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
    auto fork = std::make_shared<Sequence>();
    fork->id = {.request = sequence.id.request, .sample = sample};
    fork->params = sequence.params;
    fork->seed = sequence.seed + static_cast<std::uint64_t>(sample);
    fork->client = sequence.client;
    fork->priority = sequence.priority;
    fork->arrival_order = sequence.arrival_order;
    fork->num_prompt = sequence.num_prompt;
    fork->tokens = sequence.tokens;
    fork->images = sequence.images;
    fork->text_prompt = sequence.text_prompt;
    fork->num_computed = sequence.num_computed;
    fork->table = blocks_.fork(sequence.table);
    fork->adapter = sequence.adapter;
    if (states_ != nullptr) {
      fork->state_slot = states_->allocate();
      open_.model().copy_state(sequence.state_slot, fork->state_slot);
    }
    fork->uses_long_rope = sequence.uses_long_rope;
    fork->speculation = Speculator::start(speculation_of(sequence.params));
    fork->detokenizer = new_detokenizer(sequence.params);
    fork->lines = sequence.lines;
    fork->matcher = sequence.matcher;
    fork->num_cached = sequence.num_cached;
    fork->arrived = sequence.arrived;
    fork->first_scheduled = sequence.first_scheduled;
    fork->prompt_logprobs = sequence.prompt_logprobs;
    scheduler_.add_fork(*fork);
    samples.push_back({.sequence = fork.get(), .row = row, .is_shared = true});
    sequences_.emplace(fork->id, std::move(fork));
  }
}

SamplingContext Engine::context_of(Sequence& sequence) const {
  if (has_penalties(sequence.params)) {
    sequence.counts.update(sequence.tokens, sequence.num_prompt,
                           static_cast<TokenId>(open_.model().vocab_size()));
  }
  const std::span<const TokenId> prompt =
      sequence.images.empty()
          ? std::span(sequence.tokens).first(static_cast<std::size_t>(sequence.num_prompt))
          : std::span(sequence.text_prompt);
  return {.params = &sequence.params,
          .prompt = prompt,
          .output = sequence.output(),
          .eos_token_ids = eos_token_ids_,
          .seed = sequence.seed,
          .counts = &sequence.counts,
          .tokenizer = tokenizer_};
}

void Engine::run_sampler(Sample& sample) {
  Sequence& sequence = *sample.sequence;
  const grammar::TokenBits allowed = allowed_tokens(sequence);
  SamplingContext context = context_of(sequence);
  context.allowed = allowed;
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
    finish(sequence, {.reason = FinishReason::Error, .message = sampling_failure(sequence)},
           std::move(update));
    return;
  }
  sequence.tokens.push_back(*sample.token);
  ++num_output_tokens_;
  if (!sequence.first_token) sequence.first_token = Clock::now();
  update.tokens.push_back(*sample.token);
  set_totals(sequence, update);
  if (sample.logprobs) update.logprobs.push_back(*std::move(sample.logprobs));

  std::optional<Finish> stop = check_stop(sequence);
  const bool is_stop_token = stop && stop->stop_token;
  if (sequence.matcher && !is_stop_token) follow_grammar(sequence, *sample.token, stop);
  if (sequence.detokenizer && !is_stop_token) {
    update.text = sequence.detokenizer->push(*sample.token);
    if (const auto matched = sequence.detokenizer->stop()) {
      stop = {.reason = FinishReason::Stop, .stop_text = sequence.params.stop[*matched]};
    } else if (sequence.num_known_output() == sequence.params.min_tokens) {
      sequence.detokenizer->set_stops(sequence.params.stop);
    }
    if (cut_lines(sequence, update.text)) stop = {.reason = FinishReason::Length};
  }
  if (stop) {
    finish(sequence, *std::move(stop), std::move(update));
  } else {
    pending_.push_back(std::move(update));
  }
}

// Whether the output ends with `text`, of which the rest is cut off.
bool Engine::cut_lines(Sequence& sequence, std::string& text) const {
  if (!sequence.lines) return false;
  const auto time = Clock::now() - *sequence.first_token;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  if (!sequence.lines->cut(text, ms)) return false;
  sequence.detokenizer = nullptr;  // what it holds comes after the end
  return true;
}

// The output ends as soon as nothing can follow, whatever min_tokens and ignore_eos ask for.
void Engine::follow_grammar(Sequence& sequence, TokenId token, std::optional<Finish>& stop) const {
  if (!sequence.matcher->accept(token)) {
    stop = {.reason = FinishReason::Error,
            .message = str("structured output: token ", token, " does not match")};
  } else if (sequence.matcher->is_complete()) {
    stop = {.reason = FinishReason::Stop};
  }
}

// Empty: all. Tokens that end the output are allowed where the grammar may end.
grammar::TokenBits Engine::allowed_tokens(const Sequence& sequence) const {
  if (!sequence.matcher || !sequence.matcher->is_active()) return {};
  grammar::TokenBits bits = sequence.matcher->allowed();
  const bool can_end = sequence.matcher->can_end();
  const auto set = [&](TokenId token, bool is_allowed) {
    const auto at = static_cast<std::uint32_t>(token);
    const std::uint32_t bit = std::uint32_t{1} << at % 32;
    bits[at / 32] = is_allowed ? bits[at / 32] | bit : bits[at / 32] & ~bit;
  };
  for (const TokenId token : eos_token_ids_)
    set(token, can_end && !sequence.params.ignore_eos);
  for (const TokenId token : sequence.params.stop_token_ids)
    set(token, can_end);
  return bits;
}

std::string Engine::sampling_failure(const Sequence& sequence) const {
  if (!sequence.matcher || !sequence.matcher->is_active())
    return "sampling failed: every token is masked, or the logits are NaN";
  const grammar::TokenBits allowed = allowed_tokens(sequence);
  if (std::ranges::all_of(allowed, [](std::uint32_t word) { return word == 0; }))
    return "structured output: no token of the vocabulary can follow";
  return "structured output: other parameters mask all tokens that can follow, or the logits are "
         "NaN";
}

std::optional<Finish> Engine::check_stop(const Sequence& sequence) const {
  const SamplingParams& params = sequence.params;
  const TokenId token = sequence.tokens.back();
  const bool is_eos = !params.ignore_eos && contains(eos_token_ids_, token);
  if (is_eos || contains(params.stop_token_ids, token))
    return Finish{.reason = FinishReason::Stop, .stop_token = token};
  const std::int64_t num_output = sequence.num_known_output();
  if (!is_full(sequence, num_output)) return std::nullopt;
  Finish length = {.reason = FinishReason::Length};
  if (!params.max_tokens || num_output < *params.max_tokens)
    length.message = str("max_model_len of ", config_.max_model_len, " tokens reached");
  return length;
}

bool Engine::is_full(const Sequence& sequence, std::int64_t num_output) const {
  const std::optional<std::int64_t>& max_tokens = sequence.params.max_tokens;
  return (max_tokens && num_output >= *max_tokens) ||
         sequence.num_prompt + num_output >= config_.max_model_len;
}

}  // namespace graft::engine
