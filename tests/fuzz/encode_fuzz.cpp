// Fuzzes the text for small tokenizers of each kind: decoding returns the input, streaming returns
// the same text as decoding, and encoding again returns the same ids.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/check.h"
#include "graft/testing/tokenizer.h"
#include "graft/tokenizer/detokenizer.h"
#include "graft/tokenizer/steps/unicode.h"
#include "graft/tokenizer/tokenizer.h"

namespace {

namespace tokenizer = graft::tokenizer;
using tokenizer::TokenId;
using tokenizer::Tokenizer;

const std::vector<Tokenizer>& byte_level_tokenizers() {
  static const std::vector<Tokenizer> all = [] {
    std::vector<Tokenizer> made;
    for (const char* pre : {"gpt-2", "llama-bpe", "deepseek-llm", "deepseek-coder", "deepseek-v3",
                            "tekken", "gpt-4o", "kimi-k2", "smollm"})
      made.emplace_back(tokenizer::test::byte_level(pre));
    return made;
  }();
  return all;
}

void check(const Tokenizer& with, std::string_view text, bool is_exact) {
  const tokenizer::EncodeOptions options = {.add_special = false, .parse_special = false};
  const std::vector<TokenId> ids = with.encode(text, options);
  GRAFT_CHECK(with.encode(text, options) == ids, "encoding again returned other ids");
  const std::string back = with.decode(ids, true);
  GRAFT_CHECK(!is_exact || back == text, "decoding returned other bytes");
  tokenizer::Detokenizer stream(with, {.stops = {"\x01never"}, .keep_special = true}, true);
  std::string streamed;
  for (const TokenId id : ids)
    streamed += stream.push(id);
  streamed += stream.finish();
  GRAFT_CHECK(stream.stop() || streamed == tokenizer::replace_invalid_utf8(back),
              "streaming returned other text");
}

}  // namespace

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tokenizer sentencepiece(tokenizer::test::sentencepiece());
  static const Tokenizer unigram(tokenizer::test::unigram());
  static const Tokenizer qwen(tokenizer::test::byte_level("qwen2"));
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Tokenizer& with : byte_level_tokenizers())
    check(with, text, true);
  check(qwen, text, false);  // has a normalizer
  // A literal ▁ decodes to a space; unigram adds no prefix space before a space.
  const bool has_marker = text.find("\u2581") != std::string_view::npos;
  check(sentencepiece, text, !has_marker);
  check(unigram, text, !has_marker && !text.starts_with(' '));
  return 0;
}
