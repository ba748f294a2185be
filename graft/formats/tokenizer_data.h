// The vocabulary and rules of a tokenizer as a checkpoint stores them, named like GGUF's
// tokenizer.ggml.* keys. Read from GGUF metadata or from tokenizer.json.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace graft::formats {

enum class TokenType : std::int32_t {
  Normal = 1,
  Unknown = 2,
  Control = 3,
  UserDefined = 4,
  Unused = 5,
  Byte = 6,
};

// Token ids and vocabulary size from the model's configuration; tokenizer files lack them.
struct ModelTokens {
  std::int64_t vocab_size = 0;  // rows of the embedding; 0: unknown, as large as the tokenizer
  std::vector<std::int64_t> eos_token_ids;
  std::optional<std::int64_t> bos_token_id;
  std::optional<std::int64_t> pad_token_id;

  bool operator==(const ModelTokens&) const = default;
};

struct TokenizerData {
  std::string model;  // "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "t5" (unigram),
                      // "bert" (WordPiece), "whitespace" (BPE over characters of words)
  std::string pre;    // GGUF's name of the pre-tokenizer: "qwen2", "llama-bpe" …
  std::vector<std::string> tokens;  // by id
  std::vector<float> scores;        // by id, higher merges first; empty for byte-level BPE
  std::vector<TokenType> types;     // by id
  std::vector<std::string> merges;  // "left right", best first; empty for unigram

  std::optional<std::int64_t> bos_id;
  std::optional<std::int64_t> eos_id;
  std::optional<std::int64_t> unk_id;
  std::optional<std::int64_t> cls_id;  // before a text; WordPiece
  std::optional<std::int64_t> sep_id;
  std::optional<std::int64_t> pad_id;
  std::optional<std::int64_t> mask_id;
  std::optional<std::int64_t> eot_id;  // a second end token; eom_id: a third
  std::optional<std::int64_t> eom_id;
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
  std::optional<bool> remove_extra_whitespaces;
  std::optional<bool> lowercase;      // of WordPiece and "whitespace"
  std::optional<bool> strip_accents;  // of WordPiece
  std::string precompiled_charsmap;   // bytes of SentencePiece's replacements; empty: none
  std::string chat_template;          // empty: none
  // The text of tokenizer.json, for what the fields above cannot express; empty for GGUF.
  std::string tokenizer_json;

  bool operator==(const TokenizerData&) const = default;
  bool empty() const { return tokens.empty(); }
};

}  // namespace graft::formats
