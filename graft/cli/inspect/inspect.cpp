// graft inspect: describes a checkpoint without reading its weights.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graft/base/text/json.h"
#include "graft/base/text/units.h"
#include "graft/cli/commands.h"
#include "graft/cli/inspect/config_json.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/parts.h"
#include "graft/cli/terminal.h"
#include "graft/formats/read_tokenizer.h"
#include "graft/models/families/family.h"
#include "graft/models/weights/checkpoint.h"

namespace graft::cli {
namespace {

using formats::TensorInfo;
using models::Checkpoint;
using models::ModelConfig;

struct TensorTally {
  std::int64_t tensors = 0;
  std::int64_t elems = 0;
  std::uint64_t bytes = 0;

  void add(const TensorInfo& tensor) {
    ++tensors;
    elems += tensor.num_elems();
    bytes += tensor.data.size();
  }
};

struct Summary {
  std::map<DType, TensorTally> by_type;
  std::map<Part, TensorTally> by_part;
  TensorTally all;
  double active_parameters = 0;  // per token
};

Summary summarize(const Checkpoint& source) {
  Summary summary;
  for (const TensorInfo& tensor : source.tensors()) {
    const Part part = part_of(source.config(), tensor.name);
    summary.by_type[tensor.dtype].add(tensor);
    summary.by_part[part].add(tensor);
    if (part != Part::Scales) summary.all.add(tensor);
    if (part == Part::Scales || part == Part::NextToken) continue;
    const models::MoeConfig& moe = source.config().moe;
    const double share =
        part == Part::RoutedExperts
            ? static_cast<double>(moe.num_experts_per_tok) / static_cast<double>(moe.num_experts)
            : 1.0;
    summary.active_parameters += share * static_cast<double>(tensor.num_elems());
  }
  return summary;
}

// A safetensors file without config.json has no family.
std::string_view model_type(const ModelConfig& config) {
  return config.family == nullptr ? "unknown" : config.family->model_type();
}

std::string_view hf_class(const ModelConfig& config) {
  return config.family == nullptr ? "unknown" : config.family->hf_class;
}

void row(const char* label, const std::string& text) {
  fmt::print("  {:12} {}\n", label, text);
}

std::string compressed_text(const ModelConfig& config) {
  using Kind = models::CompressedConfig::Kind;
  const models::CompressedConfig& compressed = config.compressed;
  return fmt::format(", {} entries of {} tokens in {} layers, all of {} tokens in {}, {} streams",
                     config.indexer.top_k, compressed.sparse_rate,
                     std::ranges::count(compressed.layers, Kind::Sparse), compressed.heavy_rate,
                     std::ranges::count(compressed.layers, Kind::Heavy), config.hyper.mult);
}

std::string attention_text(const ModelConfig& config) {
  if (config.is_mla()) {
    return fmt::format("MLA, {} heads, q rank {}, kv rank {}, head dim {} + {} rope, value dim {}",
                       config.num_attention_heads, config.mla.q_lora_rank, config.mla.kv_lora_rank,
                       config.mla.qk_nope_head_dim, config.mla.qk_rope_head_dim,
                       config.mla.v_head_dim);
  }
  std::string text = fmt::format("{} heads, {} KV heads, head dim {}", config.num_attention_heads,
                                 config.num_key_value_heads, config.head_dim);
  if (config.rotary_dim != config.head_dim)
    text += fmt::format(", rotary dim {}", config.rotary_dim);
  if (config.attention_bias) text += ", bias";
  if (config.qk_norm) text += ", q/k norm";
  if (config.attention_output_gate) text += ", output gate";
  if (config.sliding_window > 0) text += fmt::format(", sliding window {}", config.sliding_window);
  if (config.is_compressed()) text += compressed_text(config);
  return text;
}

std::string delta_net_text(const models::DeltaNetConfig& net) {
  return fmt::format(
      "gated delta rule in {} layers, {} key heads of {}, {} value heads of {}, convolution of {}",
      std::ranges::count(net.layers, true), net.num_key_heads, net.key_head_dim,
      net.num_value_heads, net.value_head_dim, net.conv_kernel_dim);
}

std::string experts_text(const models::MoeConfig& moe) {
  std::string text = fmt::format("{} of size {}, {} per token", moe.num_experts,
                                 moe.moe_intermediate_size, moe.num_experts_per_tok);
  if (moe.n_group > 1) text += fmt::format(" from {} of {} groups", moe.topk_group, moe.n_group);
  constexpr std::array kScores = {", softmax", ", sigmoid", ", sqrtsoftplus"};
  text += kScores[static_cast<std::size_t>(moe.scoring_func)];
  if (moe.shared_expert_intermediate_size > 0)
    text += fmt::format(", shared {}", moe.shared_expert_intermediate_size);
  return text;
}

std::string context_text(const ModelConfig& config) {
  std::string text = fmt::format("{} tokens, rope {} base {:g}", config.max_position_embeddings,
                                 name(config.rope.kind), config.rope.theta);
  if (config.rope.factor != 1.0) text += fmt::format(" factor {:g}", config.rope.factor);
  return text;
}

std::string layers_text(const ModelConfig& config) {
  std::string text = fmt::format("{}", config.num_hidden_layers);
  std::int64_t dense = 0;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i)
    dense += config.layer_has_experts(i) ? 0 : 1;
  if (config.is_moe() && dense > 0) text += fmt::format(", {} dense", dense);
  if (config.num_nextn_predict_layers > 0)
    text += fmt::format(", plus {} MTP", config.num_nextn_predict_layers);
  return text;
}

std::string tokenizer_text(const formats::TokenizerData& tokenizer) {
  std::string text = fmt::format("{} tokens, {}", tokenizer.tokens.size(), tokenizer.model);
  if (!tokenizer.pre.empty()) text += fmt::format(" ({})", tokenizer.pre);
  text += tokenizer.chat_template.empty()
              ? ", no chat template"
              : fmt::format(", chat template of {} characters", tokenizer.chat_template.size());
  return text;
}

void print_model(const Checkpoint& source, const Summary& summary) {
  const ModelConfig& config = source.config();
  fmt::print("{} ({}, {})\n", config.name.empty() ? "unnamed model" : config.name,
             model_type(config), hf_class(config));
  row("checkpoint",
      fmt::format("{}, {} {}, {}", source.format(), source.files().size(),
                  source.files().size() == 1 ? "file" : "files", bytes_text(summary.all.bytes)));
  if (summary.all.elems > 0) {
    row("parameters",
        fmt::format("{}, {} active per token", count_text(static_cast<double>(summary.all.elems)),
                    count_text(summary.active_parameters)));
  }
  row("layers", layers_text(config));
  row("hidden size", fmt::format("{}, MLP {}", config.hidden_size, config.intermediate_size));
  row("attention", attention_text(config));
  if (!config.delta_net.layers.empty()) row("recurrent", delta_net_text(config.delta_net));
  if (config.is_moe()) row("experts", experts_text(config.moe));
  row("context", context_text(config));
  row("vocabulary",
      source.tokenizer().empty()
          ? fmt::format("{} tokens, no tokenizer in the checkpoint", config.vocab_size)
          : tokenizer_text(source.tokenizer()));
}

template <class Key, class Name>
void print_tally(const char* title, const std::map<Key, TensorTally>& tallies, Name key_name) {
  fmt::print("\n  {:<22} {:>8} {:>12} {:>12}\n", title, "tensors", "parameters", "bytes");
  for (const auto& [key, tally] : tallies) {
    fmt::print("  {:<22} {:>8} {:>12} {:>12}\n", key_name(key), tally.tensors,
               count_text(static_cast<double>(tally.elems)), bytes_text(tally.bytes));
  }
}

void print_tensors(const Checkpoint& source) {
  fmt::print("\n");
  for (const TensorInfo& tensor : source.tensors()) {
    const std::string shape = fmt::format("[{}]", fmt::join(tensor.shape, ", "));
    fmt::print("  {:8} {:<20} {}\n", name(tensor.dtype), shape, tensor.name);
  }
}

template <class Key, class Name>
Json tally_json(const std::map<Key, TensorTally>& tallies, Name key_name) {
  Json json = Json::object();
  for (const auto& [key, tally] : tallies) {
    json[std::string(key_name(key))] = {
        {"tensors", tally.tensors}, {"parameters", tally.elems}, {"bytes", tally.bytes}};
  }
  return json;
}

Json tokenizer_json(const formats::TokenizerData& tokenizer) {
  return {{"model", tokenizer.model},
          {"pre", tokenizer.pre},
          {"tokens", tokenizer.tokens.size()},
          {"chat_template", tokenizer.chat_template}};
}

Json model_json(const Checkpoint& source, const Summary& summary, bool with_tensors) {
  const ModelConfig& config = source.config();
  Json json = {{"name", config.name},
               {"model_type", model_type(config)},
               {"architecture", hf_class(config)},
               {"format", source.format()},
               {"files", Json::array()},
               {"parameters", summary.all.elems},
               {"parameters_used_per_token", static_cast<std::int64_t>(summary.active_parameters)},
               {"bytes", summary.all.bytes},
               {"config", to_json(config)},
               {"types", tally_json(summary.by_type, [](DType type) { return name(type); })},
               {"parts", tally_json(summary.by_part, [](Part part) { return name(part); })},
               {"tokenizer", tokenizer_json(source.tokenizer())},
               {"warnings", source.warnings()}};
  for (const auto& file : source.files())
    json["files"].push_back(file.string());
  if (!with_tensors) return json;
  for (const TensorInfo& tensor : source.tensors()) {
    json["tensors"].push_back({{"name", tensor.name},
                               {"type", name(tensor.dtype)},
                               {"shape", tensor.shape},
                               {"bytes", tensor.data.size()}});
  }
  return json;
}

struct InspectOptions {
  ModelChoice model;
  bool json = false;
  bool tensors = false;
};

// For files that hold only a tokenizer.
void inspect_vocabulary(const std::filesystem::path& path, bool as_json) {
  std::vector<std::string> warnings;
  const formats::TokenizerData tokenizer = formats::read_tokenizer(path, warnings);
  if (as_json) {
    const Json json = {{"tokenizer", tokenizer_json(tokenizer)}, {"warnings", warnings}};
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("{} (tokenizer only)\n", path.stem().string());
  row("vocabulary", tokenizer_text(tokenizer));
  for (const std::string& warning : warnings)
    warn(warning);
}

void inspect(const InspectOptions& options) {
  const std::filesystem::path path = options.model.path();
  if (formats::is_vocabulary(path)) {
    inspect_vocabulary(path, options.json);
    return;
  }
  const std::unique_ptr<Checkpoint> source = models::open_checkpoint(path);
  const Summary summary = summarize(*source);
  if (options.json) {
    // Tensor names may be invalid UTF-8; invalid bytes are replaced.
    const Json json = model_json(*source, summary, options.tensors);
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  print_model(*source, summary);
  if (!source->tensors().empty()) {
    print_tally("type", summary.by_type, [](DType type) { return name(type); });
    print_tally("part", summary.by_part, [](Part part) { return name(part); });
  }
  if (options.tensors) print_tensors(*source);
  for (const std::string& warning : source->warnings())
    warn(warning);
}

}  // namespace

void add_inspect(Command& app) {
  auto options = std::make_shared<InspectOptions>();
  Command* command = app.add_subcommand("inspect", "Describe a checkpoint without loading it");
  command->footer("Example:\n  graft inspect model.gguf --tensors");
  options->model.add_to(*command, "MODEL");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--tensors", options->tensors, "Also list every tensor");
  command->callback([options] { inspect(*options); });
}

}  // namespace graft::cli
