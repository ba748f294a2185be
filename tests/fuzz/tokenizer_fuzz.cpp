// Fuzzes tokenizer.json: reading either returns a tokenizer or throws Error. An accepted tokenizer
// must encode and decode.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/formats/huggingface/hf_tokenizer.h"
#include "graft/tokenizer/tokenizer.h"

namespace {

using graft::tokenizer::TokenId;
using graft::tokenizer::Tokenizer;

void use(const Tokenizer& tokenizer) {
  for (const std::string text : {"Hello, world 123  <s>\n", "\xFF\xE4\xB8 e\xCC\x81 中文", ""}) {
    const std::vector<TokenId> ids = tokenizer.encode(text);
    for (const TokenId id : ids)
      GRAFT_CHECK(id >= 0 && id < tokenizer.vocab_size(), "id ", id);
    tokenizer.decode(ids, true);
  }
}

void read(std::string_view text) {
  std::vector<std::string> warnings;
  const graft::Json json = graft::parse_json(text, "fuzz");
  graft::formats::ModelTokens model;
  model.vocab_size = 300;  // few unused ids to fill
  graft::formats::TokenizerData data =
      graft::formats::read_hf_tokenizer(json, {}, model, "fuzz", warnings);
  if (data.empty()) return;
  try {
    use(Tokenizer(data));  // from the data that GGUF would hold
  } catch (const graft::Error&) {
    // Try the JSON path next.
  }
  data.tokenizer_json = text;
  use(Tokenizer(data));
}

}  // namespace

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    read({reinterpret_cast<const char*>(data), size});
  } catch (const graft::Error&) {
    return 0;
  }
  return 0;
}
