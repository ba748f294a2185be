// Guesses tokens that may follow the tokens of sequences. The engine verifies them: a wrong guess
// costs time and never changes the output.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graft/sampling_params.h"

namespace graft::engine {

struct Sequence;

struct Draft {
  Sequence* sequence = nullptr;  // has Sequence::speculation
  std::int64_t max_tokens = 0;
  std::vector<TokenId> tokens = {};  // guessed, after the known tokens; empty: no guess
};

class Drafter {
 public:
  Drafter() = default;
  Drafter(const Drafter&) = delete;
  Drafter& operator=(const Drafter&) = delete;
  virtual ~Drafter() = default;

  // Fills in the tokens of all drafts of a step. Called in every step in which the sequences
  // compute anything, prompts included.
  virtual void draft(std::span<Draft> drafts) = 0;
};

}  // namespace graft::engine
