// Images of requests: placeholders become tokens, and the vision tower runs before the step that
// computes the first of them.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/engine/engine.h"

namespace graft::engine {

std::vector<std::int64_t> Engine::image_token_counts(const Request& request) const {
  std::vector<std::int64_t> counts;
  for (const PromptImage& image : request.images)
    counts.push_back(models::num_image_tokens(*open_.model().vision_tower(), *image.image));
  return counts;
}

void Engine::check_images(const Request& request) const {
  if (request.images.empty()) return;
  const ops::VisionTowerParams* tower = open_.model().vision_tower();
  if (tower == nullptr) fail("the model has no vision tower: it does not take images");
  if (request.pooling) fail("embeddings of images are not supported");
  if (request.params.prompt_logprobs) fail("prompt_logprobs is not supported with images");
  std::int64_t after = 0;
  for (const PromptImage& image : request.images) {
    if (image.image == nullptr || image.image->tile_size != tower->image_size)
      fail("the image was not prepared for this model");
    const auto size = static_cast<std::int64_t>(request.prompt.size());
    if (image.position < after || image.position >= size) {
      fail("the placeholder of an image is at position ", image.position, ", the prompt has ", size,
           " tokens");
    }
    after = image.position + 1;
  }
}

void Engine::set_prompt(Request& request, Sequence& sequence) const {
  if (request.images.empty()) {
    sequence.tokens = std::move(request.prompt);
    sequence.num_prompt = static_cast<std::int64_t>(sequence.tokens.size());
  } else {
    ExpandedPrompt expanded = expand(request.prompt, request.images, image_token_counts(request),
                                     open_.model().vocab_size());
    sequence.tokens = std::move(expanded.tokens);
    sequence.num_prompt = static_cast<std::int64_t>(sequence.tokens.size());
    set_images(std::move(expanded.images), sequence);
  }
}

// Of a sequence that has its tokens.
void Engine::set_images(std::vector<SequenceImage> images, Sequence& sequence) const {
  sequence.images = std::move(images);
  if (sequence.images.empty()) return;
  const std::int64_t vocab_size = open_.model().vocab_size();
  std::ranges::copy_if(
      std::span(sequence.tokens).first(static_cast<std::size_t>(sequence.num_prompt)),
      std::back_inserter(sequence.text_prompt), [&](TokenId token) { return token < vocab_size; });
}

void Engine::encode_images(const Schedule& schedule) {
  for (const ScheduledSequence& scheduled : schedule.sequences) {
    Sequence& sequence = *scheduled.sequence;
    const std::int64_t begin = sequence.num_computed;
    const std::int64_t end = begin + scheduled.num_tokens;
    for (SequenceImage& image : sequence.images) {
      if (image.features != nullptr || image.first >= end || image.end() <= begin) continue;
      image.features =
          std::make_shared<const std::vector<float>>(open_.model().encode_image(*image.image));
    }
  }
}

// Of images whose tokens are all computed. A preempted sequence computes them again.
void Engine::release_features(Sequence& sequence) {
  for (SequenceImage& image : sequence.images) {
    if (image.end() <= sequence.num_computed) image.features.reset();
  }
}

}  // namespace graft::engine
