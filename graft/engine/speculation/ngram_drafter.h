// Prompt lookup: guesses the tokens that followed an earlier occurrence of a sequence's last ones.

#pragma once

#include <cstdint>
#include <span>

#include "graft/engine/speculation/drafter.h"

namespace graft::engine {

class NgramDrafter final : public Drafter {
 public:
  // Guesses no token from vocab_size on: the ids of images.
  explicit NgramDrafter(std::int64_t vocab_size) : vocab_size_(vocab_size) {}

  void draft(std::span<Draft> drafts) override;

 private:
  void draft(Draft& draft) const;

  std::int64_t vocab_size_;
};

}  // namespace graft::engine
