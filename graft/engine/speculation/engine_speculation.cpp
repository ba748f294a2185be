// Speculation in the engine: a step computes guessed tokens after the known one of a sequence, and
// every row is sampled as without them. A draw depends on the seed and the number of tokens only,
// so the token of a row is that of the output as long as the guesses before it are right; the
// others are ignored, and the next step overwrites their keys and values.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/engine/engine.h"
#include "graft/engine/speculation/drafter.h"
#include "graft/engine/speculation/sequence_speculation.h"
#include "graft/engine/speculation/speculation.h"

namespace graft::engine {
namespace {

// The second update continues the first.
void append(Update& update, Update next) {
  const auto prepend = [](auto& head, auto& list) {
    list.insert(list.begin(), std::move_iterator(head.begin()), std::move_iterator(head.end()));
  };
  prepend(update.tokens, next.tokens);
  prepend(update.logprobs, next.logprobs);
  next.text.insert(0, update.text);
  update = std::move(next);
}

}  // namespace

const Speculation& Engine::speculation_of(const SamplingParams& params) const {
  return params.speculate ? *params.speculate : config_.speculate;
}

void Engine::check_speculation(const SamplingParams& params) const {
  const Speculation& speculation = speculation_of(params);
  if (speculation.method == Speculation::Method::Off || speculation.is_automatic) return;
  if (states_ != nullptr) {
    fail("speculate is ", to_string(speculation),
         ": the model has recurrent states, which cannot return to the last right token; use off "
         "or auto");
  }
  if (speculation.min_match < 1 || speculation.max_tokens < 1) {
    fail("speculate: min_match is ", speculation.min_match, ", max_tokens ", speculation.max_tokens,
         ", expected at least 1");
  }
}

bool Engine::speculates(const Step::Row& row) {
  const auto& speculation = row.sequence->speculation;
  return (speculation && speculation->is_active) || !row.drafts.empty();
}

// Guessed tokens beside which the output does not become too long, and the sequence does not need
// other factors of LongRoPE.
std::int64_t Engine::max_drafts(const Sequence& sequence) const {
  const bool can_verify =
      sequence.num_in_flight == 0 && sequence.num_known_output() > 0 && sequence.num_pending() == 1;
  if (!can_verify) return 0;
  std::int64_t max_output = config_.max_model_len - sequence.num_prompt;
  if (sequence.params.max_tokens) max_output = std::min(max_output, *sequence.params.max_tokens);
  std::int64_t count = max_output - sequence.num_known_output() - 1;
  const std::int64_t long_from = open_.model().long_rope_from();
  if (long_from > 0 && !sequence.uses_long_rope)
    count = std::min(count, long_from - sequence.num_tokens());
  return std::max<std::int64_t>(count, 0);
}

void Engine::add_drafts(Schedule& schedule) {
  if (states_ != nullptr) return;
  std::vector<ScheduledSequence*> scheduled;
  std::vector<Draft> drafts;
  std::int64_t num_decoding = 0;
  for (ScheduledSequence& one : schedule.sequences) {
    num_decoding += one.is_complete() ? 1 : 0;
    Sequence& sequence = *one.sequence;
    if (sequence.speculation == nullptr) continue;
    scheduled.push_back(&one);
    drafts.push_back(
        {.sequence = &sequence, .max_tokens = sequence.speculation->config.max_tokens});
  }
  if (drafts.empty()) return;
  speculator_.draft(drafts, num_decoding);
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const auto count = std::min(drafts[i].tokens.size(),
                                static_cast<std::size_t>(max_drafts(*drafts[i].sequence)));
    scheduler_.add_drafts(schedule, *scheduled[i], std::span(drafts[i].tokens).first(count));
  }
}

// The samples of the rows after guesses that were right. `tokens` of a device; empty: the host
// samples.
std::vector<Engine::Sample> Engine::verified_samples(const std::vector<Sample>& samples,
                                                     std::span<const TokenId> tokens) {
  std::vector<Sample> next;
  for (const Sample& sample : samples) {
    Sequence& sequence = *sample.sequence;
    if (sample.drafts.empty() || sequence.state == SequenceState::Finished) continue;
    if (!sample.has_right_draft()) {
      blocks_.trim(sequence.table, sequence.num_computed);
      continue;
    }
    ++sequence.num_computed;
    next.push_back({.sequence = &sequence,
                    .row = sample.row + 1,
                    .drafts = sample.drafts,
                    .num_right = sample.num_right + 1});
    if (!tokens.empty()) next.back().use_token_of(tokens);
  }
  return next;
}

// One update per sequence.
void Engine::merge_updates(std::size_t first) {
  std::map<SequenceId, std::size_t> seen;
  std::size_t end = first;
  for (std::size_t i = first; i < pending_.size(); ++i) {
    const auto [found, is_new] = seen.emplace(pending_[i].id, end);
    if (!is_new) {
      append(pending_[found->second], std::move(pending_[i]));
    } else if (end++ != i) {
      pending_[end - 1] = std::move(pending_[i]);
    }
  }
  pending_.resize(end);
}

// Nothing for steps with prompts, and for those in which no sequence speculates automatically.
std::optional<Engine::DecodeStep> Engine::decode_step_of(const Schedule& schedule) {
  DecodeStep step = {.num_sequences = static_cast<std::int64_t>(schedule.sequences.size())};
  bool is_automatic = false;
  for (const ScheduledSequence& one : schedule.sequences) {
    if (one.num_tokens > 1 || one.sequence->num_output() == 0) return std::nullopt;
    const auto& speculation = one.sequence->speculation;
    is_automatic = is_automatic || (speculation && speculation->config.is_automatic);
    step.num_drafts += static_cast<std::int64_t>(one.drafts.size());
  }
  if (!is_automatic) return std::nullopt;
  return step;
}

}  // namespace graft::engine
