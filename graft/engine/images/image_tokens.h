// Images of a prompt. A placeholder in the prompt becomes as many tokens as the image has
// embeddings, with ids above the vocabulary that are a hash of the image's pixels and the index: so
// prefix cache, tiers and saved sequences tell images apart, and equal images share blocks.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graft/llm.h"
#include "graft/vision/processor.h"

namespace graft::engine {

using graft::PromptImage;

// An image in the tokens of a sequence.
struct SequenceImage {
  std::int64_t first = 0;  // position
  std::int64_t count = 0;
  std::shared_ptr<const vision::PreparedImage> image;
  // [count, hidden_size]; null: computed before the step that needs them.
  std::shared_ptr<const std::vector<float>> features = {};

  std::int64_t end() const { return first + count; }
};

// The token ids of an image: all are at least vocab_size.
std::vector<graft::TokenId> image_token_ids(const vision::ImageHash& hash,
                                            std::int64_t count,
                                            std::int64_t vocab_size);

// The prompt with the tokens of the images in place of their placeholders. `images` are ascending
// by position, `counts` their numbers of tokens.
struct ExpandedPrompt {
  std::vector<graft::TokenId> tokens;
  std::vector<SequenceImage> images;
};
ExpandedPrompt expand(const std::vector<graft::TokenId>& prompt,
                      std::span<const PromptImage> images,
                      std::span<const std::int64_t> counts,
                      std::int64_t vocab_size);

}  // namespace graft::engine
