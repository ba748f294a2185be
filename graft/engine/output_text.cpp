#include "graft/engine/output_text.h"

#include <cstdint>
#include <utility>

namespace graft::engine {

std::unique_ptr<tokenizer::Detokenizer> make_detokenizer(const tokenizer::Tokenizer& tokenizer,
                                                         const SamplingParams& params) {
  tokenizer::DetokenizerOptions options;
  options.keep_special = !params.skip_special_tokens;
  options.keep_stop = params.include_stop_str_in_output;
  // Stop strings are ignored before min_tokens; the engine sets them then.
  if (params.min_tokens == 0) options.stops = params.stop;
  return std::make_unique<tokenizer::Detokenizer>(tokenizer, std::move(options));
}

std::string replay_output(tokenizer::Detokenizer& detokenizer,
                          const SamplingParams& params,
                          std::span<const TokenId> output) {
  std::string text;
  std::int64_t num_tokens = 0;
  for (const TokenId token : output) {
    text += detokenizer.push(token);
    if (++num_tokens == params.min_tokens) detokenizer.set_stops(params.stop);
  }
  return text;
}

}  // namespace graft::engine
