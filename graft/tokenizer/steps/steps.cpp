#include "graft/tokenizer/steps/steps.h"

#include <string_view>

#include "graft/tokenizer/steps/pattern.h"

namespace graft::tokenizer {
namespace {

constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace

void add_byte_level(bool add_prefix_space, bool use_regex, Spec& spec) {
  if (add_prefix_space) {
    spec.pre_tokenizers.push_back({.kind = PreTokenizerStep::Kind::PrefixSpace});
  }
  if (use_regex) spec.pre_tokenizers.push_back({.pattern = translated_pattern(kGpt2Words)});
  spec.model.byte_level = true;
}

void add_digits(bool one_by_one, Spec& spec) {
  spec.pre_tokenizers.push_back(
      {.pattern = "\\p{N}",
       .behavior = one_by_one ? SplitBehavior::Isolated : SplitBehavior::Contiguous});
}

void strip_one_space(Spec& spec) {
  spec.strip_start.assign(1, ' ');
  spec.strip_count = 1;
}

}  // namespace graft::tokenizer
