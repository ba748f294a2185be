#include "graft/engine/images/image_tokens.h"

#include <array>
#include <limits>

#include <xxhash.h>

#include "graft/base/check.h"

namespace graft::engine {

std::vector<TokenId> image_token_ids(const vision::ImageHash& hash,
                                     std::int64_t count,
                                     std::int64_t vocab_size) {
  const auto range = static_cast<std::uint64_t>(std::numeric_limits<TokenId>::max() - vocab_size);
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::array<std::uint64_t, 3> key = {hash.high, hash.low, static_cast<std::uint64_t>(i)};
    const std::uint64_t digest = XXH3_64bits(key.data(), sizeof(key));
    ids.push_back(static_cast<TokenId>(vocab_size + static_cast<std::int64_t>(digest % range)));
  }
  return ids;
}

ExpandedPrompt expand(const std::vector<TokenId>& prompt,
                      std::span<const PromptImage> images,
                      std::span<const std::int64_t> counts,
                      std::int64_t vocab_size) {
  GRAFT_CHECK(images.size() == counts.size(), images.size(), " images, ", counts.size(), " counts");
  ExpandedPrompt out;
  auto next = prompt.begin();
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto placeholder = prompt.begin() + images[i].position;
    out.tokens.insert(out.tokens.end(), next, placeholder);
    next = placeholder + 1;
    const std::vector<TokenId> ids = image_token_ids(images[i].image->hash, counts[i], vocab_size);
    out.images.push_back({.first = static_cast<std::int64_t>(out.tokens.size()),
                          .count = counts[i],
                          .image = images[i].image});
    out.tokens.insert(out.tokens.end(), ids.begin(), ids.end());
  }
  out.tokens.insert(out.tokens.end(), next, prompt.end());
  return out;
}

}  // namespace graft::engine
