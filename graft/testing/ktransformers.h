// KTransformers' rule files for CUDA and CPU, written from a description of each: the classes they
// match and replace, the operators, the layers of each GPU.

#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

// The classes of a family and the operators that replace them; empty: the file has no such rule.
struct KTransformersClasses {
  std::string models;  // the Python module with the classes: "modeling_deepseek_v3"
  std::string rope;
  std::string rope_op;
  std::string moe;
  std::string moe_op;
  std::string moe_name = "mlp";
  std::string gate = {};
  std::string experts_op = "experts.KTransformersExperts";
  std::string attention = {};  // empty: matched by name
  std::string attention_op = {};
  std::string delta_net = {};
  std::string delta_net_op = {};
  std::string model_op = {};
  std::string norm = {};
  std::string norm_op = {};
  std::string mlp = {};
  std::string mlp_op = {};
  std::string excluded = {};  // linear layers without a rule: "self_attn\.kv_b_proj"
};

// The layers from `first` on, up to the next split, are on `device`.
struct LayerSplit {
  std::int64_t first = 0;
  std::string device;
};

struct KTransformersFile {
  std::string name;        // without ".yaml"
  std::string checkpoint;  // in tests/golden
  std::string config;      // the published model (graft/models/build/shapes.h)
  KTransformersClasses classes;
  std::int64_t num_layers = 0;          // of the published model, for files with layer numbers
  std::vector<LayerSplit> splits = {};  // empty: no layer numbers, everything on "cuda"
  std::string linear_op = "KLinearMarlin";
  std::string head_op = "KLinearMarlin";  // "default"; empty: no rule for lm_head
  std::string head_device = {};           // empty: the GPU of the last layers
  bool head_decodes_on_cpu = false;
  std::string prefill_experts_op = "KExpertsTorch";
  std::string backend = {};
  bool sets_absorb = false;    // absorb_for_prefill: False
  bool has_catch_all = false;  // of files without layer numbers
  bool moe_has_devices = true;
  bool has_dead_linears = false;  // the rule for linear layers matches nothing
  // By split: the number of its first layers that have their experts on the GPU.
  std::vector<std::int64_t> gpu_experts = {};
  bool is_llama = false;  // only RoPE, attention and model; the model is matched by class
};

// For GoogleTest.
inline void PrintTo(const KTransformersFile& file, std::ostream* out) {
  *out << file.name;
}

// Every file that graft runs.
std::span<const KTransformersFile> ktransformers_files();

struct UnsupportedKTransformersFile {
  std::string_view name;
  std::string_view reason;
};
// The other files of KTransformers.
std::span<const UnsupportedKTransformersFile> unsupported_ktransformers_files();

// The rules of a file. num_layers: its layer numbers are scaled to a model with that many layers,
// rounded up, so that some GPUs may get none; 0: as published.
std::string ktransformers_rules(const KTransformersFile& file, std::int64_t num_layers = 0);

}  // namespace graft
