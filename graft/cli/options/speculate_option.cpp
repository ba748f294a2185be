#include "graft/cli/options/speculate_option.h"

#include "graft/base/error.h"
#include "graft/engine/speculation/speculation.h"

namespace graft::cli {
namespace {

std::string speculation_problem(const std::string& text) {
  try {
    engine::parse_speculation(text);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

void SpeculateOption::add_to(Command& command) {
  command
      .add_option("--speculate", text,
                  "Guess tokens and verify several in one step, with the same output: ngram[:N,K] "
                  "guesses up to K tokens (5) that followed an earlier occurrence of the last N "
                  "(3), auto does so where it is faster (default: off)")
      ->option_text("off|auto|ngram[:N,K]")
      ->check(speculation_problem);
}

void SpeculateOption::apply_to(api::EngineConfig& config) const {
  if (!text.empty()) config.speculate = engine::parse_speculation(text);
}

}  // namespace graft::cli
