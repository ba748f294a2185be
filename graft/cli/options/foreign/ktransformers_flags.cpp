#include <array>

#include "graft/cli/options/foreign/flag_row.h"

namespace graft::cli {
namespace {

constexpr std::string_view kCheckpoint = "one checkpoint has all weights, for GPUs and CPUs: -m";
constexpr std::string_view kLogs = "messages go to standard error: `graft serve … 2> FILE`";

constexpr auto kKTransformersRows = std::to_array<FlagRow>({
    {"--model-path", "--model", Meaning::Model},
    {"--gguf-path", "--model", Meaning::Model},
    {"--model-dir", "--model-dir", Meaning::Renamed},
    {"--model-name", "", Meaning::ModelName},
    {"--optimize-config-path", "--rules", Meaning::Renamed},
    {"--cpu-infer", "--threads", Meaning::Renamed},
    {"--chunk-size", "", Meaning::Prefill},
    {"--chunk-prefill-size", "", Meaning::Prefill},
    {"--cache-lens", kLength, Meaning::Refused, Scope::Talk},
    {"--cache-lens", "--kv-blocks", Meaning::CacheTokens},
    {"--max-batch-size", kBatch, Meaning::Refused, Scope::Talk},
    {"--max-batch-size", "--max-num-seqs", Meaning::Renamed},
    {"--prompt-file", "graft run - < FILE", Meaning::Refused, Scope::Run},
    {"--cpu-memory-size-GB", "--kv-host", Meaning::Gibibytes},
    {"--force-think", R"(requests decide: "reasoning_effort" or "chat_template_kwargs")",
     Meaning::Refused, Scope::Serve},
    {"--force-think", "--think=on", Meaning::Switch},
    {"--use-cuda-graph", "--enforce-eager", Meaning::CudaGraph},
    {"--mode", "normal", Meaning::Mode},
    {"--backend-type", "ktransformers|balance_serve", Meaning::Only},
    {"--sched-strategy", "FCFS", Meaning::Only},
    {"--web", kTrue, Meaning::Only},
    {"--web-cross-domain", "--cors-origin names the origins that may call the server",
     Meaning::Refused},
    {"--tp", "1", Meaning::Only},
    {"--ssl-keyfile", "--tls-key", Meaning::Renamed},
    {"--ssl-certfile", "--tls-cert", Meaning::Renamed},
    {"--system-prompt", "--system", Meaning::Renamed, Scope::Talk},
    {"--max-new-tokens", kSampling, Meaning::Refused, Scope::Serve},
    {"--temperature", kSampling, Meaning::Refused, Scope::Serve},
    {"--top-p", kSampling, Meaning::Refused, Scope::Serve},
    {"--top-k", kSampling, Meaning::Refused, Scope::Serve},
    {"--min-p", kSampling, Meaning::Refused, Scope::Serve},
    {"--repetition-penalty", kSampling, Meaning::Refused, Scope::Serve},
    {"--presence-penalty", kSampling, Meaning::Refused, Scope::Serve},
    {"--frequency-penalty", kSampling, Meaning::Refused, Scope::Serve},
    {"--seed", kSampling, Meaning::Refused, Scope::Serve},
    {"--architectures", "the architecture is read from the checkpoint", Meaning::Refused},
    {"--page-size", kBlocks, Meaning::Refused},
    {"--log-dir", kLogs, Meaning::Refused},
    {"--gpu-split", kPlacement, Meaning::Refused},
    {"--memory-gpu-only", kPlacement, Meaning::Refused},
    {"--cache-8bit", "--kv-cache-dtype q8_0", Meaning::Refused},
    {"--cache-q4", "--kv-cache-dtype q4_0", Meaning::Refused},
    // SGLang, which newer versions of KTransformers start.
    {"--kt-weight-path", kCheckpoint, Meaning::Refused},
    {"--kt-cpuinfer", "--threads", Meaning::Renamed},
    {"--kt-*", kPlacement, Meaning::Refused},
    {"--mem-fraction-static", "--gpu-memory-utilization", Meaning::Renamed, Scope::Serve},
    {"--chunked-prefill-size", "", Meaning::Prefill},
    {"--max-running-requests", kBatch, Meaning::Refused, Scope::Talk},
    {"--max-running-requests", "--max-num-seqs", Meaning::Renamed},
    {"--max-total-tokens", kLength, Meaning::Refused, Scope::Talk},
    {"--max-total-tokens", "--kv-blocks", Meaning::CacheTokens},
    {"--context-length", "--max-model-len", Meaning::Count},
});

}  // namespace

std::span<const FlagRow> ktransformers_flags() {
  return kKTransformersRows;
}

}  // namespace graft::cli
