#include "graft/server/openai/samplers.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/base/text/str.h"

namespace graft::server::openai {
namespace {

using api::SamplingStep;

struct Name {
  std::string_view name;
  SamplingStep step;
};

// In the order in which they are applied without a list.
constexpr auto kSteps = std::to_array<Name>({{"top_k", SamplingStep::TopK},
                                             {"temperature", SamplingStep::Temperature},
                                             {"min_p", SamplingStep::MinP},
                                             {"top_p", SamplingStep::TopP},
                                             {"typ_p", SamplingStep::TypicalP},
                                             {"infill", SamplingStep::Infill}});
// The parameters that would turn them on are refused.
constexpr auto kAlwaysOff =
    std::to_array<std::string_view>({"dry", "xtc", "top_n_sigma", "adaptive_p"});
constexpr std::size_t kMaxNames = 32;

// Whether the most likely token is taken, in whatever order.
bool is_greedy(const std::vector<SamplingStep>& steps, const api::SamplingParams& params) {
  return params.is_greedy() && params.typical_p >= 1 &&
         std::ranges::find(steps, SamplingStep::Infill) == steps.end();
}

bool is_in_usual_order(const std::vector<SamplingStep>& steps) {
  const auto place = [](SamplingStep step) { return std::ranges::find(kSteps, step, &Name::step); };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] == SamplingStep::Infill || (i > 0 && place(steps[i]) <= place(steps[i - 1])))
      return false;
  }
  return true;
}

void turn_off_temperature(Sampling& sampling) {
  sampling.params.temperature = 1;
  sampling.default_temperature = false;
}

void turn_off_penalties(Sampling& sampling) {
  sampling.params.repetition_penalty = 1;
  sampling.params.presence_penalty = 0;
  sampling.params.frequency_penalty = 0;
  sampling.default_repetition_penalty = false;
  sampling.default_presence_penalty = false;
  sampling.default_frequency_penalty = false;
}

// The steps that the list does not name, for the usual order.
void turn_off_others(const std::vector<SamplingStep>& steps, Sampling& sampling) {
  api::SamplingParams& params = sampling.params;
  const auto has = [&](SamplingStep step) { return std::ranges::find(steps, step) != steps.end(); };
  if (!has(SamplingStep::Temperature)) turn_off_temperature(sampling);
  if (!has(SamplingStep::TopK)) {
    params.top_k = 0;
    sampling.default_top_k = false;
  }
  if (!has(SamplingStep::TopP)) {
    params.top_p = 1;
    sampling.default_top_p = false;
  }
  if (!has(SamplingStep::MinP)) {
    params.min_p = 0;
    sampling.default_min_p = false;
  }
  if (!has(SamplingStep::TypicalP)) params.typical_p = 1;
}

}  // namespace

void read_samplers(const Fields& fields, Sampling& sampling) {
  const OrderedJson* list = fields.find("samplers");
  if (list == nullptr) return;
  if (!list->is_array()) fields.fail_at("samplers", "expected a list of names");
  std::vector<SamplingStep> steps;
  bool has_penalties = false;
  for (const std::string& name : fields.strings("samplers", kMaxNames)) {
    if (std::ranges::find(kAlwaysOff, name) != kAlwaysOff.end()) continue;
    if (name == "penalties") {
      if (has_penalties || !steps.empty())
        fields.fail_at("samplers", "penalties are supported only once, before all others");
      has_penalties = true;
      continue;
    }
    const auto* known = std::ranges::find(kSteps, name, &Name::name);
    if (known == kSteps.end()) fields.fail_at("samplers", str("'", name, "' is not supported"));
    steps.push_back(known->step);
  }
  if (!has_penalties) turn_off_penalties(sampling);
  turn_off_others(steps, sampling);
  if (!is_in_usual_order(steps) && !is_greedy(steps, sampling.params))
    sampling.params.steps = std::move(steps);
}

}  // namespace graft::server::openai
