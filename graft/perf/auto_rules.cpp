// Which modules go to the GPUs when memory is short: what every token uses first, per byte.

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

// Drivers, fragments and kernels' own memory take their share.
constexpr double kUsableShare = 0.92;
// f16 keys and values.
constexpr std::uint64_t kCacheElemBytes = 2;

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

ModelBytes measure(const plan::Blueprint& blueprint, const Load& load) {
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

// Consecutive layers of one GPU, with what of them fits beside the core.
struct Share {
  std::int64_t first = 0;
  std::int64_t last = -1;
  std::int64_t experts_from = 0;    // the first of these layers that has experts
  std::int64_t experts_until = -1;  // layers up to this one have their experts here too
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

  const std::vector<Share>& place() {
    const auto num_layers = static_cast<std::int64_t>(bytes_.layers.size());
    place_cores(num_layers);
    for (std::size_t gpu = 0; gpu < free_.size(); ++gpu)
      place_experts(gpu);
    return shares_;
  }
  // The head is on the last GPU that has layers, if it fits there.
  bool head_on_gpu() const { return head_on_gpu_; }

 private:
  std::int64_t need(std::int64_t layer) const {
    const LayerBytes& bytes = bytes_.layers[static_cast<std::size_t>(layer)];
    return static_cast<std::int64_t>(bytes.core + bytes.mlp);
  }

  std::int64_t experts_of(std::int64_t layer) const {
    return static_cast<std::int64_t>(bytes_.layers[static_cast<std::size_t>(layer)].experts);
  }

  // Layers in order over the GPUs, evenly, as long as they fit. What remains stays on the CPU.
  void place_cores(std::int64_t num_layers) {
    std::int64_t layer = 0;
    const auto num_gpus = static_cast<std::int64_t>(free_.size());
    for (std::int64_t gpu = 0; gpu < num_gpus; ++gpu) {
      Share& share = shares_[static_cast<std::size_t>(gpu)];
      std::int64_t& free = free_[static_cast<std::size_t>(gpu)];
      const std::int64_t until = num_layers * (gpu + 1) / num_gpus;
      share.first = layer;
      while (layer < until && need(layer) <= free)
        free -= need(layer++);
      share.last = layer - 1;
      if (layer < until) break;
    }
    const auto head = static_cast<std::int64_t>(bytes_.head);
    head_on_gpu_ = layer == num_layers && !free_.empty() && head <= free_.back();
    if (head_on_gpu_) free_.back() -= head;
  }

  // Experts of equal layers gain the same per byte: the first layers, as many as fit.
  void place_experts(std::size_t gpu) {
    Share& share = shares_[gpu];
    share.experts_from = share.first;
    while (share.experts_from <= share.last && experts_of(share.experts_from) == 0)
      ++share.experts_from;
    share.experts_until = share.experts_from - 1;
    for (std::int64_t layer = share.experts_from; layer <= share.last; ++layer) {
      const std::int64_t size = experts_of(layer);
      if (size > free_[gpu]) return;
      free_[gpu] -= size;
      share.experts_until = layer;
    }
  }

  const ModelBytes& bytes_;
  std::vector<std::int64_t> free_;
  std::vector<Share> shares_;
  bool head_on_gpu_ = false;
};

void add_rule(std::string& text, const std::string& match, const std::string& replace) {
  text += fmt::format("\n- match:   {{ {} }}\n  replace: {{ {} }}\n", match, replace);
}

std::string rules_text(const std::vector<Share>& shares, bool head_on_gpu) {
  std::string text;
  add_rule(text, "role: embedding", "class: default, kwargs: { device: cpu }");
  std::size_t last_used = 0;
  for (std::size_t gpu = 0; gpu < shares.size(); ++gpu) {
    const Share& share = shares[gpu];
    if (share.last < share.first) continue;
    last_used = gpu;
    if (share.experts_until >= share.experts_from) {
      add_rule(text,
               fmt::format("role: experts, layers: {}-{}", share.experts_from, share.experts_until),
               fmt::format("class: default, kwargs: {{ device: \"cuda:{}\" }}", gpu));
    }
    if (std::max(share.experts_from, share.experts_until + 1) <= share.last) {
      add_rule(
          text,
          fmt::format("role: experts, layers: {}-{}",
                      std::max(share.experts_from, share.experts_until + 1), share.last),
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
                       const Load& load) {
  const ModelBytes bytes = measure(blueprint, load);
  Placer placer(bytes, machine);
  const std::vector<Share>& shares = placer.place();
  const bool any =
      std::ranges::any_of(shares, [](const Share& share) { return share.last >= share.first; });
  if (!machine.gpus.empty() && !any) {
    const LayerBytes& first = bytes.layers.front();
    fail(blueprint.model_name, ": attention and KV cache of one layer take ",
         bytes_text(first.core + first.mlp), " with a context of ", load.context, ", the GPU has ",
         bytes_text(machine.gpus[0].vram_bytes));
  }
  std::string text =
      fmt::format("# {} for {}", blueprint.model_name, bytes_text(machine.cpu.dram_bytes));
  for (const GpuFigures& gpu : machine.gpus)
    text += fmt::format(" + {} GPU memory", bytes_text(gpu.vram_bytes));
  text += fmt::format(", context {}, {} at once.\n", load.context, load.parallel);
  return text + rules_text(shares, placer.head_on_gpu());
}

}  // namespace graft::perf
