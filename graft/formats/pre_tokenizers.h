// Pre-tokenizers by their GGUF names (tokenizer.ggml.pre), with the properties of the original
// tokenizers that GGUF has no key for.

#pragma once

#include <array>
#include <span>
#include <string_view>

namespace graft::formats {

struct NamedPreTokenizer {
  std::string_view name;
  // The steps of tokenizer.json, one line each: "split REGEX" (Oniguruma syntax, each match is a
  // piece), "threes REGEX" (matches are cut into groups of three
  // characters from their end), "digits 1" (one digit per piece), "digits", "bytelevel regex",
  // "bytelevel". Unused entries are empty.
  std::array<std::string_view, 7> steps;
  bool nfc = false;            // NFC normalization before the steps
  bool ignore_merges = false;  // a word that is a token is encoded without merges
  bool is_sentencepiece =
      false;                   // BPE over characters, spaces are ▁; the steps have no "bytelevel"
  bool ids_are_ranks = false;  // files have no merges: lower ids merge first
  bool add_bos = false;        // default when the file has no key
  // A token that distinguishes this pre-tokenizer's vocabularies from others with the same steps;
  // empty: none.
  std::string_view marker_token = {};
};

// A value of tokenizer.ggml.pre and the definition it stands for.
struct PreTokenizerName {
  std::string_view name;
  std::string_view definition;  // NamedPreTokenizer::name
};

std::span<const NamedPreTokenizer> named_pre_tokenizers();

// Searches `names` (those of the model families), then names without a supported family, then the
// definitions. Null for an unknown name.
const NamedPreTokenizer* find_named_pre_tokenizer(std::string_view name,
                                                  std::span<const PreTokenizerName> names = {});

}  // namespace graft::formats
