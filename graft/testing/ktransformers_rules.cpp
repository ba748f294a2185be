#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/testing/ktransformers.h"

namespace graft {
namespace {

// A pattern of the numbers in [begin, end), below 100: "([0-9]|1[0-4])".
std::string number_pattern(std::int64_t begin, std::int64_t end) {
  std::string pattern;
  for (std::int64_t decade = begin / 10; decade * 10 < end; ++decade) {
    const std::int64_t low = std::max(begin, decade * 10) % 10;
    const std::int64_t high = (std::min(end, decade * 10 + 10) - 1) % 10;
    pattern += str(pattern.empty() ? "" : "|", decade == 0 ? "" : std::to_string(decade), "[", low,
                   "-", high, "]");
  }
  return str("(", pattern, ")");
}

class Writer {
 public:
  Writer(const KTransformersFile& file, std::int64_t num_layers)
      : file_(file), classes_(file.classes), is_scaled_(num_layers != 0) {
    if (file.splits.empty()) {
      groups_ = {{.layers = R"(^model\.layers\..*)", .device = "cuda"}};
      return;
    }
    const std::int64_t end = is_scaled_ ? num_layers : file.num_layers;
    for (std::size_t i = 0; i < file.splits.size(); ++i) {
      const bool is_last = i + 1 == file.splits.size();
      const Group group = {.first = scaled(file.splits[i].first, end),
                           .end = is_last ? end : scaled(file.splits[i + 1].first, end),
                           .num_on_gpu = num_on_gpu(i),
                           .layers = {},
                           .device = file.splits[i].device};
      if (group.first < group.end) groups_.push_back(group);
    }
    for (Group& group : groups_)
      group.layers = R"(^model\.layers\.)" + number_pattern(group.first, group.end);
  }

  std::string text() {
    if (file_.is_llama) return llama();
    rule("^model.embed_tokens", "", "default", devices("cpu"));
    for (const Group& group : groups_)
      rule(has_numbers() ? group.layers + R"(\.)" : "", classes_.rope, classes_.rope_op,
           devices(group.device));
    linears();
    blocks();
    model();
    if (!classes_.norm.empty()) rule("", classes_.norm, classes_.norm_op, devices("cuda"));
    if (!classes_.mlp.empty()) rule("", classes_.mlp, classes_.mlp_op, devices("cuda"));
    if (has_numbers() || file_.has_catch_all) {
      for (const Group& group : groups_)
        rule(group.layers + R"(\.)", "", "default", devices(group.device));
    }
    if (has_numbers()) rule("^model.norm", "", "default", devices(last_device()));
    return text_;
  }

 private:
  struct Group {
    std::int64_t first = 0;
    std::int64_t end = 0;
    std::int64_t num_on_gpu = 0;  // layers with experts on the GPU
    std::string layers;           // a pattern of the layers' names
    std::string device;
  };

  std::int64_t scaled(std::int64_t layer, std::int64_t num_layers) const {
    return (layer * num_layers + file_.num_layers - 1) / file_.num_layers;
  }
  // Scaled, the dense layer and the first one with experts, so that experts remain on the CPU.
  std::int64_t num_on_gpu(std::size_t split) const {
    if (split >= file_.gpu_experts.size()) return 0;
    if (!is_scaled_) return file_.gpu_experts[split];
    return split == 0 ? 2 : 0;
  }
  bool has_numbers() const { return !file_.splits.empty(); }
  std::string last_device() const {
    return has_numbers() ? file_.splits.back().device : std::string("cuda");
  }
  static std::string devices(const std::string& device) {
    return str("generate_device: \"", device, "\", prefill_device: \"", device, "\"");
  }

  void rule(const std::string& name,
            const std::string& class_name,
            const std::string& op,
            const std::string& kwargs,
            bool is_recursive = true) {
    std::string match = name.empty() ? "" : str("name: '", name, "'");
    if (!class_name.empty()) {
      const bool is_linear = class_name == "Linear";
      match += str(match.empty() ? "" : ", ", "class: ",
                   is_linear ? "torch.nn." : str("ktransformers.models.", classes_.models, "."),
                   class_name);
    }
    text_ += str("- match: {", match,
                 "}\n  replace: {class: ", op == "default" ? "" : "ktransformers.operators.", op);
    text_ += kwargs.empty() ? "}\n" : str(", kwargs: {", kwargs, "}}\n");
    if (!is_recursive) text_ += "  recursive: False\n";
  }

  void linear(const std::string& name,
              const std::string& decode,
              const std::string& prefill,
              const std::string& op) {
    rule(name, "Linear", "linear.KTransformersLinear",
         str("generate_device: \"", decode, "\", prefill_device: \"", prefill,
             "\", generate_op: \"", op, "\", prefill_op: \"KLinearTorch\"",
             prefill == "cpu" ? ", out_device: \"cpu\"" : ""));
  }

  void linears() {
    for (const Group& group : groups_) {
      const std::string without =
          classes_.excluded.empty() ? std::string()
                                    : str("(?!", has_numbers() ? "" : ".*", classes_.excluded, ")");
      std::string name = str(R"(^model\.layers\.)", without, ".*$");
      if (has_numbers()) name = str(group.layers, R"(\.)", without, ".*$");
      if (file_.has_dead_linears) name = group.layers + "$";
      const bool is_on_cpu = group.device == "cpu";
      linear(name, group.device, group.device, is_on_cpu ? "KLinearCPUInfer" : file_.linear_op);
    }
    if (file_.head_op == "default") rule("^lm_head", "Linear", "default", devices(last_device()));
    if (file_.head_op.empty() || file_.head_op == "default") return;
    const std::string device = file_.head_device.empty() ? last_device() : file_.head_device;
    linear("^lm_head", file_.head_decodes_on_cpu ? "cpu" : device, device, file_.head_op);
  }

  void blocks() {
    for (const Group& group : groups_) {
      const std::string moe = str(group.layers, R"(\.)", classes_.moe_name);
      const std::string on_device = devices(group.device);
      rule(moe + "$", classes_.moe, classes_.moe_op, file_.moe_has_devices ? on_device : "");
      if (!classes_.gate.empty())
        rule(has_numbers() ? moe + R"(\.gate$)" : "", classes_.gate, "gate.KMoEGate",
             has_numbers() ? on_device : devices("cuda:0"));
      experts(group, moe + R"(\.experts$)");
      if (!classes_.delta_net.empty())
        rule("", classes_.delta_net, classes_.delta_net_op, on_device);
      if (classes_.attention_op.empty()) continue;
      rule(classes_.attention.empty() ? group.layers + R"(\.self_attn$)" : std::string(),
           classes_.attention, classes_.attention_op,
           on_device + (file_.sets_absorb ? ", absorb_for_prefill: False" : ""));
    }
  }

  void experts(const Group& group, const std::string& name) {
    if (group.num_on_gpu > 0) {
      const std::string layers = number_pattern(group.first, group.first + group.num_on_gpu);
      rule(str(R"(^model\.layers\.)", layers, R"(\.mlp\.experts$)"), "", classes_.experts_op,
           str("generate_device: \"", group.device, "\", generate_op: \"KExpertsMarlin\""), false);
    }
    rule(name, "", classes_.experts_op,
         str("prefill_device: \"", group.device, "\", prefill_op: \"", file_.prefill_experts_op,
             "\", generate_device: \"cpu\", generate_op: \"KExpertsCPU\", out_device: \"",
             group.device, "\"", file_.backend.empty() ? "" : ", backend: " + file_.backend),
         false);
  }

  void model() {
    if (classes_.model_op.empty()) return;
    std::string map;
    for (std::size_t i = 1; i < groups_.size(); ++i)
      map += str(map.empty() ? "" : ", ", groups_[i].first, ": \"", groups_[i].device, "\"");
    rule("^model$", "", classes_.model_op,
         str("per_layer_prefill_intput_threshold: 0",
             map.empty() ? "" : str(", transfer_map: {", map, "}")));
  }

  std::string llama() {
    rule("", classes_.rope, classes_.rope_op, "");
    rule("^model.embed_tokens", "", "default", devices("cpu"));
    rule("", "LlamaModel", classes_.model_op,
         devices("cuda") + ", per_layer_prefill_intput_threshold: 0");
    rule(R"(^model\.layers\..*\.self_attn$)", "", classes_.attention_op, devices("cuda"));
    return text_;
  }

  const KTransformersFile& file_;
  const KTransformersClasses& classes_;
  bool is_scaled_;
  std::vector<Group> groups_;
  std::string text_;
};

}  // namespace

std::string ktransformers_rules(const KTransformersFile& file, std::int64_t num_layers) {
  return Writer(file, num_layers).text();
}

}  // namespace graft
