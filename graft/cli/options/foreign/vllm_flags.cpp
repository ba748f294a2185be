#include <array>

#include "graft/cli/options/foreign/flag_row.h"

namespace graft::cli {
namespace {

constexpr std::string_view kOneServer =
    "1";  // several servers behind a load balancer: docs/replicas.md
constexpr std::string_view kKernels = "kernels are chosen for the GPU and its instructions";
constexpr std::string_view kMultiGpu =
    "rules place layers on several GPUs (docs/gpus.md), without tensor parallelism";
constexpr std::string_view kTemplate =
    R"(requests have "chat_template_kwargs"; --chat-template sets the template)";
constexpr std::string_view kAccessLog = "--access-log FILE writes a line per request, - to stdout";
constexpr std::string_view kTypes =
    "types are read from the checkpoint; `graft quantize` changes them";

constexpr std::string_view kLora = "a model has room for 64 adapters of ranks up to 512";

constexpr auto kVllmRows = std::to_array<FlagRow>({
    {"--max-model-len", "--max-model-len", Meaning::Count},
    {"--max-num-batched-tokens", "--max-num-batched-tokens", Meaning::Count},
    {"--max-num-batched-tokens", "--chunk-prefill", Meaning::Count, Scope::Talk},
    {"--kv-cache-dtype", "--kv-cache-dtype", Meaning::CacheType},
    {"--served-model-name", "", Meaning::ModelName},
    {"--max-num-seqs", kBatch, Meaning::Refused, Scope::Talk},
    {"--gpu-memory-utilization", "--memory SIZE bounds weights and KV cache", Meaning::Refused,
     Scope::Talk},
    {"--num-gpu-blocks-override", kLength, Meaning::Refused, Scope::Talk},
    {"--num-gpu-blocks-override", "--kv-blocks", Meaning::Renamed},
    {"--swap-space", "--kv-host", Meaning::Gibibytes},
    {"--kv-offloading-size", "--kv-host", Meaning::Gibibytes},
    {"--allowed-origins", "--cors-origin", Meaning::Origins},
    {"--speculative-config", "--speculate", Meaning::Speculation},
    {"--uvicorn-log-level", "--log-level", Meaning::Renamed},
    {"--lora-modules", "--lora", Meaning::Renamed},
    {"--kv-cache-memory-bytes", "--kv-blocks is the number of blocks", Meaning::Refused},
    {"--max-loras", kLora, Meaning::Refused},
    {"--max-cpu-loras", kLora, Meaning::Refused},
    {"--max-lora-rank", kLora, Meaning::Refused},
    // What graft does.
    {"--tensor-parallel-size", kOneServer, Meaning::Only},
    {"-tp", kOneServer, Meaning::Only},
    {"--pipeline-parallel-size", kOneServer, Meaning::Only},
    {"-pp", kOneServer, Meaning::Only},
    {"--data-parallel-size", kOneServer, Meaning::Only},
    {"-dp", kOneServer, Meaning::Only},
    {"--api-server-count", kOneServer, Meaning::Only},
    {"--dtype", "auto", Meaning::Only},
    {"--load-format", "auto|safetensors|gguf", Meaning::Only},
    {"--config-format", "auto|hf", Meaning::Only},
    {"--tokenizer-mode", "auto|hf|slow", Meaning::Only},
    {"--generation-config", "auto", Meaning::Only},
    {"--task", "auto|generate|embed|embedding", Meaning::Only},
    {"--runner", "auto|generate|pooling", Meaning::Only},
    {"--scheduling-policy", "fcfs|priority", Meaning::Only},
    {"--response-role", "assistant", Meaning::Only},
    {"--chat-template-content-format", "auto", Meaning::Only},
    {"--guided-decoding-backend", "auto", Meaning::Only},
    {"--structured-outputs-config.backend", "auto", Meaning::Only},
    {"--logprobs-mode", "raw_logprobs", Meaning::Only},
    {"--enable-prefix-caching", kTrue, Meaning::Only},
    {"--enable-chunked-prefill", kTrue, Meaning::Only},
    {"--enable-auto-tool-choice", kTrue, Meaning::Only},
    {"--enable-lora", kTrue, Meaning::Only},
    {"--enable-reasoning", kTrue, Meaning::Only},
    {"--enable-prompt-tokens-details", kTrue, Meaning::Only},
    {"--async-scheduling", kTrue, Meaning::Only},
    {"--disable-log-requests", kTrue, Meaning::Only},
    {"--no-enable-log-requests", kTrue, Meaning::Only},
    {"--disable-uvicorn-access-log", kTrue, Meaning::Only},
    {"--disable-log-stats", kTrue, Meaning::Only},
    {"--disable-frontend-multiprocessing", kTrue, Meaning::Only},
    {"--disable-custom-all-reduce", kTrue, Meaning::Only},
    // Refused.
    {"--no-enable-prefix-caching", "the prefix cache is always on", Meaning::Refused},
    {"--no-enable-chunked-prefill", "prefill is always chunked", Meaning::Refused},
    {"--enable-expert-parallel", kMultiGpu, Meaning::Refused},
    {"--distributed-executor-backend", kMultiGpu, Meaning::Refused},
    {"--nnodes", kMultiGpu, Meaning::Refused},
    {"--tool-call-parser", "the format of calls follows the model", Meaning::Refused},
    {"--tool-parser-plugin", "the format of calls follows the model", Meaning::Refused},
    {"--reasoning-parser", "the format of reasoning follows the model", Meaning::Refused},
    {"--default-chat-template-kwargs", kTemplate, Meaning::Refused},
    {"--chat-template-kwargs", kTemplate, Meaning::Refused},
    {"--quantization", kTypes, Meaning::Refused},
    {"-q", kTypes, Meaning::Refused},
    {"--cpu-offload-gb", kPlacement, Meaning::Refused},
    {"--block-size", kBlocks, Meaning::Refused},
    {"--trust-remote-code", "graft runs no code of checkpoints", Meaning::Refused},
    {"--revision", "write it after the name: -m ORG/REPO@REVISION", Meaning::Refused},
    {"--download-dir", "HF_HOME names the folder of downloads", Meaning::Refused},
    {"--hf-token", "HF_TOKEN is the token", Meaning::Refused},
    {"--hf-overrides", "the configuration is that of the checkpoint", Meaning::Refused},
    {"--rope-theta", kRope, Meaning::Refused},
    {"--override-generation-config", kSampling, Meaning::Refused},
    {"--api-key", kKeys, Meaning::Refused},
    {"--ssl-ca-certs", "clients authenticate with API keys (--api-key-file)", Meaning::Refused},
    {"--root-path", "--public-url is the URL behind a proxy, which removes the path",
     Meaning::Refused},
    {"--allowed-methods", "--cors-origin allows all methods of the API", Meaning::Refused},
    {"--allowed-headers", "--cors-origin allows all headers of the API", Meaning::Refused},
    {"--allow-credentials", "API keys are a header, not a cookie", Meaning::Refused},
    {"--enable-log-requests", kAccessLog, Meaning::Refused},
    {"--max-log-len", kAccessLog, Meaning::Refused},
    {"--enable-log-outputs", kAccessLog, Meaning::Refused},
    {"--enable-server-load-tracking", "/metrics has the load", Meaning::Refused},
    {"-O*", kKernels, Meaning::Refused},
    {"--max-logprobs", "a request may ask for 20", Meaning::Refused},
    {"--config", "settings are in graft.yaml, which GRAFT_CONFIG names (docs/commands.md)",
     Meaning::Refused},
    {"--speculative-model", kNoDraft, Meaning::Refused},
    {"--num-speculative-tokens", kNoDraft, Meaning::Refused},
    {"--kv-transfer-config", "--kv-host and --kv-disk keep blocks of the KV cache",
     Meaning::Refused},
    {"--attention-backend", kKernels, Meaning::Refused},
    {"--compilation-config", kKernels, Meaning::Refused},
    {"--max-seq-len-to-capture", kKernels, Meaning::Refused},
    {"--cuda-graph-sizes", kKernels, Meaning::Refused},
    {"--num-scheduler-steps", kStep, Meaning::Refused},
    {"--max-num-partial-prefills", kStep, Meaning::Refused},
    {"--long-prefill-token-threshold", kStep, Meaning::Refused},
    {"--pooler-config", "--pooling mean or last", Meaning::Refused},
    {"--override-pooler-config", "--pooling mean or last", Meaning::Refused},
    {"--disable-sliding-window", "attention is as the checkpoint says", Meaning::Refused},
    {"--enable-sleep-mode", "--keep-alive unloads idle models", Meaning::Refused},
    {"--otlp-traces-endpoint", "graft passes traceparent on, and has /metrics", Meaning::Refused},
    {"--middleware", "graft runs no Python", Meaning::Refused},
});

}  // namespace

std::span<const FlagRow> vllm_flags() {
  return kVllmRows;
}

}  // namespace graft::cli
