#include "graft/tokenizer/detokenizer.h"

#include <algorithm>
#include <utility>

#include "graft/tokenizer/steps/unicode.h"
#include "graft/tokenizer/tokenizer_state.h"

namespace graft::tokenizer {

Detokenizer::Detokenizer(const Tokenizer& tokenizer,
                         DetokenizerOptions options,
                         bool prompt_is_empty)
    : tokenizer_(&tokenizer),
      options_(std::move(options)),
      num_strips_(prompt_is_empty ? tokenizer.state_->spec.strip_count : 0) {}

// Removes the prefix that the tokenizer adds to a text, as soon as all its bytes arrived.
void Detokenizer::strip_start() {
  const std::string& prefix = tokenizer_->state_->spec.strip_start;
  while (num_strips_ > 0 && bytes_.size() >= prefix.size()) {
    if (!bytes_.starts_with(prefix)) {
      num_strips_ = 0;
      return;
    }
    bytes_.erase(0, prefix.size());
    --num_strips_;
  }
  if (num_strips_ > 0 && !bytes_.empty() && !prefix.starts_with(bytes_)) num_strips_ = 0;
}

std::string Detokenizer::push(TokenId id) {
  if (stop_ || (!options_.keep_special && tokenizer_->is_special(id))) return "";
  bytes_ += tokenizer_->bytes(id);
  strip_start();
  if (num_strips_ > 0 && !bytes_.empty()) return "";
  const std::size_t complete = bytes_.size() - incomplete_suffix(bytes_);
  held_ += replace_invalid_utf8(std::string_view(bytes_).substr(0, complete));
  bytes_.erase(0, complete);
  return release(false);
}

std::string Detokenizer::finish() {
  if (stop_) return "";
  held_ += replace_invalid_utf8(std::exchange(bytes_, {}));
  return release(true);
}

// Returns the prefix of held_ that cannot be part of a stop string. Searches for stop strings
// first; of several, the one that begins first ends the text, then the longest.
std::string Detokenizer::release(bool is_end) {
  std::size_t found = std::string::npos;
  for (std::size_t i = 0; i < options_.stops.size(); ++i) {
    const std::string& stop = options_.stops[i];
    const auto at = stop.empty() ? std::string::npos : held_.find(stop);
    if (at == std::string::npos || at > found) continue;
    if (at == found && stop.size() <= options_.stops[*stop_].size()) continue;
    found = at;
    stop_ = i;
  }
  if (stop_) {
    std::string text = held_.substr(0, found);
    if (options_.keep_stop) text += options_.stops[*stop_];
    held_.clear();
    bytes_.clear();
    return text;
  }
  std::size_t kept = 0;
  for (const std::string& stop : options_.stops) {
    if (is_end) break;
    for (std::size_t size = std::min(stop.size(), held_.size() + 1); size-- > kept + 1;) {
      if (held_.ends_with(std::string_view(stop).substr(0, size))) kept = size;
      if (kept == size) break;
    }
  }
  std::string text = held_.substr(0, held_.size() - kept);
  held_.erase(0, text.size());
  return text;
}

}  // namespace graft::tokenizer
