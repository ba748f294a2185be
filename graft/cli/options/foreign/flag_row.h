// Flags of other programs and what they mean in graft. A table per program; the first row of a flag
// that applies to the command counts.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace graft::cli {

enum class Meaning : std::uint8_t {
  Renamed,      // same value, other name
  Switch,       // true: `to`
  Count,        // a number, also as 32k (thousands) or 32K (1024); auto and -1: the default
  Prefill,      // tokens of a prefill chunk: the flag depends on the command
  CacheTokens,  // tokens of the KV cache: --kv-blocks
  Gibibytes,    // a number of GiB: the same flag with the unit
  Mebibytes,
  Prompt,       // a text that becomes the prompt
  Model,        // the last of these wins; --gguf-path over --model-path
  ModelName,    // the name under which the model is served
  CudaGraph,    // false: --enforce-eager
  GpuLayers,    // 0: --device cpu; all: placed automatically, as without it
  DeviceName,   // llama.cpp's: none, CUDA0
  Origins,      // a JSON list of CORS origins
  Speculation,  // vLLM's JSON; methods other than ngram are refused
  CacheType,    // of the KV cache, in PyTorch's names
  KeyType,      // of the KV cache; keys and values must have the same
  ValueType,
  Only,     // `to`, a list "a|b": accepted values, which are what graft does anyway
  Mode,     // likewise; long_context is refused with what there is instead
  Refused,  // `to` says why, or graft's way; `from` may end in * for all flags that begin so
};

// The commands in which a row applies.
enum class Scope : std::uint8_t { All, Serve, Talk, Run, Chat };

struct FlagRow {
  std::string_view from;
  std::string_view to;
  Meaning meaning;
  Scope scope = Scope::All;
};

// Of flags that turn on what graft does anyway: they need no value.
inline constexpr std::string_view kTrue = "true|True|1|on|auto";
inline constexpr std::string_view kPlacement =
    "modules are placed automatically; a rule file (--rules, docs/rules.md) places them by name";
inline constexpr std::string_view kSampling =
    "requests decide, and the model's generation_config.json where they leave it out";
inline constexpr std::string_view kNoLongContext =
    "graft has no sparse attention over keys and values in host memory; it attends to the whole "
    "context where it was computed. --max-model-len sets its length, --kv-cache-dtype q8_0 or q4_0 "
    "(on CPUs) makes it smaller, --device cpu keeps it in host memory, --kv-host keeps earlier "
    "prompts";
inline constexpr std::string_view kNoDraft =
    "speculative decoding has no draft models; --speculate ngram or auto guesses tokens that "
    "occurred "
    "before";
inline constexpr std::string_view kRope = "RoPE is as the checkpoint says";
inline constexpr std::string_view kStep = "--max-num-batched-tokens of `graft serve` bounds a step";
inline constexpr std::string_view kBatch = "`graft serve` runs several requests at once";
inline constexpr std::string_view kLength = "--max-model-len bounds the conversation";
inline constexpr std::string_view kBlocks = "the rule of kv_cache has block_tokens";
inline constexpr std::string_view kKeys =
    "a key on the command line is visible to other users; use --api-key-file or GRAFT_API_KEYS";

std::span<const FlagRow> ktransformers_flags();  // also of SGLang with KTransformers' kernels
std::span<const FlagRow> vllm_flags();
std::span<const FlagRow> llamacpp_flags();

}  // namespace graft::cli
