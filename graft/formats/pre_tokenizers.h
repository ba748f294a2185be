// Pre-tokenizers by the names that GGUF files have for them (tokenizer.ggml.pre), with what else
// the original tokenizers of such a name do and GGUF has no words for.

#pragma once

#include <array>
#include <span>
#include <string_view>

namespace graft::formats {

struct NamedPreTokenizer {
  std::string_view name;
  // As tokenizer.json has them, each as one line: "split REGEX" (Oniguruma's, each match is a
  // piece), "digits 1" (one by one), "digits", "bytelevel regex", "bytelevel". Unused ones are
  // empty.
  std::array<std::string_view, 7> steps;
  bool nfc = false;            // the text is normalised first
  bool ignore_merges = false;  // a word that is a token needs no merging
  bool add_bos = false;        // unless the file says otherwise
};

std::span<const NamedPreTokenizer> named_pre_tokenizers();

// By its name or by another that stands for the same; null when there is none.
const NamedPreTokenizer* find_named_pre_tokenizer(std::string_view name);

}  // namespace graft::formats
