// Generates a rule file for a model that does not fit into GPU memory: the modules every token
// uses are placed on the GPUs first, routed experts fill what memory is left.

#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/text/units.h"
#include "graft/perf/estimate.h"

namespace graft::perf {
namespace {

using ops::Role;

// Fraction of GPU memory available for weights and KV cache; the rest covers the driver, kernel
// workspaces and fragmentation.
constexpr double kUsableShare = 0.92;
constexpr std::uint64_t kCacheElemBytes = 2;  // the KV cache holds f16

struct LayerBytes {
  std::uint64_t core = 0;     // attention, norms, router, shared experts, KV cache
  std::uint64_t mlp = 0;      // dense MLP
  std::uint64_t experts = 0;  // routed
};

struct ModelBytes {
  std::vector<LayerBytes> layers;
  std::uint64_t head = 0;  // final norm and lm_head
};

bool is_under(const plan::ModuleSpec& module, std::string_view word) {
  return module.name.find(word) != std::string::npos;
}

ModelBytes count_bytes(const plan::Blueprint& blueprint, const Workload& load) {
  ModelBytes bytes;
  bytes.layers.resize(static_cast<std::size_t>(blueprint.num_layers));
  blueprint.visit([&](const plan::ModuleSpec& module) {
    std::uint64_t size = 0;
    for (const plan::WeightSpec& weight : module.weights)
      size += weight.bytes();
    if (const auto* cache = std::get_if<ops::KvCacheParams>(&module.params)) {
      size = static_cast<std::uint64_t>(cache->key_size + cache->value_size) * kCacheElemBytes *
             static_cast<std::uint64_t>(load.context * load.parallel);
    }
    if (module.layer < 0) {
      if (module.role != Role::Embedding) bytes.head += size;
      return;
    }
    LayerBytes& layer = bytes.layers[static_cast<std::size_t>(module.layer)];
    const bool dense_mlp = is_under(module, ".mlp.") && module.role == Role::Linear &&
                           !is_under(module, "shared_expert");
    if (module.role == Role::Experts) {
      layer.experts += size;
    } else if (dense_mlp) {
      layer.mlp += size;
    } else {
      layer.core += size;
    }
  });
  return bytes;
}

// The consecutive layers one GPU holds, and which of them also have their experts on it. All
// bounds are inclusive; first > last means none.
struct LayerShare {
  std::int64_t first = 0;
  std::int64_t last = -1;
  std::int64_t first_experts = 0;  // first layer of the range with routed experts
  std::int64_t last_experts = -1;  // last layer whose experts are on the GPU
};

class Placer {
 public:
  Placer(const ModelBytes& bytes, const MachineFigures& machine) : bytes_(bytes) {
    for (const GpuFigures& gpu : machine.gpus) {
      free_.push_back(
          static_cast<std::int64_t>(kUsableShare * static_cast<double>(gpu.vram_bytes)));
    }
    shares_.resize(free_.size());
  }

  const std::vector<LayerShare>& place() {
    const auto num_layers = static_cast<std::int64_t>(bytes_.layers.size());
    place_dense(num_layers);
    for (std::size_t gpu = 0; gpu < free_.size(); ++gpu)
      place_experts(gpu);
    return shares_;
  }
  // Whether the final norm and lm_head are on the last GPU. They are when all layers are on GPUs
  // and the last one has memory left.
  bool head_on_gpu() const { return head_on_gpu_; }

 private:
  // Bytes of a layer without its routed experts.
  std::int64_t dense_bytes(std::int64_t layer) const {
    const LayerBytes& bytes = bytes_.layers[static_cast<std::size_t>(layer)];
    return static_cast<std::int64_t>(bytes.core + bytes.mlp);
  }

  std::int64_t expert_bytes(std::int64_t layer) const {
    return static_cast<std::int64_t>(bytes_.layers[static_cast<std::size_t>(layer)].experts);
  }

  // Splits the layers evenly over the GPUs, in order. The first layer that does not fit and all
  // after it stay on the CPU.
  void place_dense(std::int64_t num_layers) {
    std::int64_t layer = 0;
    const auto num_gpus = static_cast<std::int64_t>(free_.size());
    for (std::int64_t gpu = 0; gpu < num_gpus; ++gpu) {
      LayerShare& share = shares_[static_cast<std::size_t>(gpu)];
      std::int64_t& free = free_[static_cast<std::size_t>(gpu)];
      const std::int64_t until = num_layers * (gpu + 1) / num_gpus;
      share.first = layer;
      while (layer < until && dense_bytes(layer) <= free)
        free -= dense_bytes(layer++);
      share.last = layer - 1;
      if (layer < until) break;
    }
    const auto head = static_cast<std::int64_t>(bytes_.head);
    head_on_gpu_ = layer == num_layers && !free_.empty() && head <= free_.back();
    if (head_on_gpu_) free_.back() -= head;
  }

  // Every layer's experts save the same time per byte, so the first layers that fit are taken.
  void place_experts(std::size_t gpu) {
    LayerShare& share = shares_[gpu];
    share.first_experts = share.first;
    while (share.first_experts <= share.last && expert_bytes(share.first_experts) == 0)
      ++share.first_experts;
    share.last_experts = share.first_experts - 1;
    for (std::int64_t layer = share.first_experts; layer <= share.last; ++layer) {
      const std::int64_t size = expert_bytes(layer);
      if (size > free_[gpu]) return;
      free_[gpu] -= size;
      share.last_experts = layer;
    }
  }

  const ModelBytes& bytes_;
  std::vector<std::int64_t> free_;  // bytes left on each GPU
  std::vector<LayerShare> shares_;  // one per GPU
  bool head_on_gpu_ = false;
};

void add_rule(std::string& text, const std::string& match, const std::string& replace) {
  text += fmt::format("\n- match:   {{ {} }}\n  replace: {{ {} }}\n", match, replace);
}

std::string rules_text(const std::vector<LayerShare>& shares, bool head_on_gpu) {
  std::string text;
  add_rule(text, "role: embedding", "class: default, kwargs: { device: cpu }");
  std::size_t last_used = 0;
  for (std::size_t gpu = 0; gpu < shares.size(); ++gpu) {
    const LayerShare& share = shares[gpu];
    if (share.last < share.first) continue;
    last_used = gpu;
    if (share.last_experts >= share.first_experts) {
      add_rule(text,
               fmt::format("role: experts, layers: {}-{}", share.first_experts, share.last_experts),
               fmt::format("class: default, kwargs: {{ device: \"cuda:{}\" }}", gpu));
    }
    if (std::max(share.first_experts, share.last_experts + 1) <= share.last) {
      add_rule(
          text,
          fmt::format("role: experts, layers: {}-{}",
                      std::max(share.first_experts, share.last_experts + 1), share.last),
          fmt::format("class: default, kwargs: {{ device: cpu, out_device: \"cuda:{}\" }}", gpu));
    }
    add_rule(text, fmt::format("layers: {}-{}", share.first, share.last),
             fmt::format("class: default, kwargs: {{ device: \"cuda:{}\" }}", gpu));
  }
  if (head_on_gpu) {
    add_rule(text, R"(name: "^(lm_head|model\\.norm)$")",
             fmt::format("class: default, kwargs: {{ device: \"cuda:{}\" }}", last_used));
  }
  add_rule(text, R"(name: "")", "class: default, kwargs: { device: cpu }");
  return text;
}

}  // namespace

std::string auto_rules(const plan::Blueprint& blueprint,
                       const MachineFigures& machine,
                       const Workload& load) {
  const ModelBytes bytes = count_bytes(blueprint, load);
  Placer placer(bytes, machine);
  const std::vector<LayerShare>& shares = placer.place();
  const bool any = std::ranges::any_of(
      shares, [](const LayerShare& share) { return share.last >= share.first; });
  if (!machine.gpus.empty() && !any) {
    const LayerBytes& first = bytes.layers.front();
    fail(blueprint.model_name, ": attention and KV cache of one layer need ",
         bytes_text(first.core + first.mlp), " with a context of ", load.context,
         " tokens, the GPU has ", bytes_text(machine.gpus[0].vram_bytes));
  }
  std::string text =
      fmt::format("# {} for {}", blueprint.model_name, bytes_text(machine.cpu.dram_bytes));
  for (const GpuFigures& gpu : machine.gpus)
    text += fmt::format(" + {} GPU memory", bytes_text(gpu.vram_bytes));
  text += fmt::format(", context {}, parallel {}.\n", load.context, load.parallel);
  return text + rules_text(shares, placer.head_on_gpu());
}

}  // namespace graft::perf
