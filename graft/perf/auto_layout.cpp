#include "graft/perf/auto_layout.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "graft/perf/gpu_experts.h"
#include "graft/perf/model_bytes.h"
#include "graft/perf/work.h"

namespace graft::perf {
namespace {

using ops::Role;

constexpr std::int64_t kMinContext = 4096;  // without a wanted context

class Layouter {
 public:
  // vision_on_gpu: on the first GPU.
  Layouter(const ModelBytes& bytes,
           const MachineFigures& machine,
           std::int64_t cached_tokens,
           bool vision_on_gpu)
      : bytes_(bytes),
        dram_(machine.cpu.dram_bytes),
        cached_tokens_(cached_tokens),
        vision_on_gpu_(vision_on_gpu) {
    for (const GpuFigures& gpu : machine.gpus) {
      const double usable = kUsableShare * static_cast<double>(gpu.vram_bytes);
      capacity_.push_back(
          std::max<std::int64_t>(0, static_cast<std::int64_t>(usable) - bytes_.workspace));
    }
    if (vision_on_gpu) capacity_.front() -= bytes_.vision;
  }

  // Everything on one GPU, else on all together; null when it does not fit.
  std::optional<AutoLayout> place_everything() const {
    for (std::size_t gpu = 0; gpu < capacity_.size(); ++gpu) {
      const std::int64_t needed =
          range_bytes(0, num_layers(), true) + bytes_.embedding + bytes_.head;
      if (needed > capacity_[gpu]) continue;
      AutoLayout layout = empty_layout();
      layout.gpus[gpu] = with_all_experts(0, num_layers() - 1);
      layout.head_on_gpu = layout.is_whole = true;
      return layout;
    }
    return capacity_.size() > 1 ? place_everything_evenly() : std::nullopt;
  }

  // All layers without their experts on the GPUs, experts in host memory with copies on the GPUs.
  // Null when the layers do not fit.
  std::optional<AutoLayout> place_hybrid() const {
    AutoLayout layout = empty_layout();
    std::vector<std::int64_t> free = capacity_;
    if (!place_evenly(layout, free)) return std::nullopt;
    return with_experts(std::move(layout), std::move(free));
  }

  // The same with as many layers as fit, the others on the CPU. `streams`: beside the buffers for
  // streaming.
  AutoLayout place_some_layers(bool streams) const {
    AutoLayout layout = empty_layout();
    std::vector<std::int64_t> free = capacity_;
    const std::int64_t buffers = streams ? bytes_.stream_buffers : 0;
    for (std::int64_t& bytes : free)
      bytes -= buffers;
    place_greedily(layout, free);
    for (std::int64_t& bytes : free)
      bytes += buffers;
    return with_experts(std::move(layout), std::move(free));
  }

  AutoLayout empty_layout() const {
    AutoLayout layout;
    layout.gpus.resize(capacity_.size());
    layout.num_experts = bytes_.num_experts;
    layout.num_layers = num_layers();
    layout.has_vision = bytes_.vision > 0;
    if (vision_on_gpu_) layout.vision_gpu = 0;
    return layout;
  }

 private:
  std::int64_t num_layers() const { return static_cast<std::int64_t>(bytes_.layers.size()); }
  const LayerBytes& at(std::int64_t layer) const {
    return bytes_.layers[static_cast<std::size_t>(layer)];
  }
  std::int64_t dense_bytes(std::int64_t layer) const {
    return at(layer).dense + at(layer).per_token * cached_tokens_;
  }
  std::int64_t range_bytes(std::int64_t begin, std::int64_t end, bool with_experts) const {
    std::int64_t sum = 0;
    for (std::int64_t layer = begin; layer < end; ++layer)
      sum += dense_bytes(layer) + (with_experts ? at(layer).experts : 0);
    return sum;
  }

  // Adds the head and the experts.
  AutoLayout with_experts(AutoLayout layout, std::vector<std::int64_t> free) const {
    place_head(layout, free);
    // Streaming needs buffers, which may be what is missing for experts that host memory lacks.
    std::optional<AutoLayout> streamed = place_experts(layout, free, true);
    if (streamed) return *streamed;
    std::optional<AutoLayout> unstreamed = place_experts(layout, free, false);
    return unstreamed ? *unstreamed : layout;
  }

  // The layers [first, last] with no experts on the GPU yet.
  GpuLayers without_experts(std::int64_t first, std::int64_t last) const {
    GpuLayers layers = {.first = first, .last = last, .first_experts = first};
    while (layers.first_experts <= last && at(layers.first_experts).experts == 0)
      ++layers.first_experts;
    layers.last_experts = layers.first_experts - 1;
    return layers;
  }
  GpuLayers with_all_experts(std::int64_t first, std::int64_t last) const {
    GpuLayers layers = without_experts(first, last);
    layers.last_experts = std::max(layers.last_experts, last);
    return layers;
  }

  std::optional<AutoLayout> place_everything_evenly() const {
    AutoLayout layout = empty_layout();
    const auto num_gpus = static_cast<std::int64_t>(capacity_.size());
    for (std::int64_t gpu = 0; gpu < num_gpus; ++gpu) {
      const std::int64_t begin = num_layers() * gpu / num_gpus;
      const std::int64_t end = num_layers() * (gpu + 1) / num_gpus;
      std::int64_t needed = range_bytes(begin, end, true);
      if (gpu == 0) needed += bytes_.embedding;
      if (gpu + 1 == num_gpus) needed += bytes_.head;
      if (needed > capacity_[static_cast<std::size_t>(gpu)]) return std::nullopt;
      layout.gpus[static_cast<std::size_t>(gpu)] = with_all_experts(begin, end - 1);
    }
    layout.head_on_gpu = layout.is_whole = true;
    return layout;
  }

  // Equally many layers per GPU; false when they do not fit.
  bool place_evenly(AutoLayout& layout, std::vector<std::int64_t>& free) const {
    const auto num_gpus = static_cast<std::int64_t>(free.size());
    for (std::int64_t gpu = 0; gpu < num_gpus; ++gpu) {
      const auto idx = static_cast<std::size_t>(gpu);
      const std::int64_t begin = num_layers() * gpu / num_gpus;
      const std::int64_t end = num_layers() * (gpu + 1) / num_gpus;
      free[idx] -= range_bytes(begin, end, false);
      if (free[idx] < 0) return false;
      layout.gpus[idx] = without_experts(begin, end - 1);
    }
    return num_gpus > 0;
  }

  // Each GPU as many layers as fit; the rest stays on the CPU.
  void place_greedily(AutoLayout& layout, std::vector<std::int64_t>& free) const {
    std::int64_t layer = 0;
    for (std::size_t gpu = 0; gpu < free.size(); ++gpu) {
      const std::int64_t first = layer;
      while (layer < num_layers() && dense_bytes(layer) <= free[gpu])
        free[gpu] -= dense_bytes(layer++);
      layout.gpus[gpu] = without_experts(first, layer - 1);
    }
  }

  void place_head(AutoLayout& layout, std::vector<std::int64_t>& free) const {
    for (std::size_t gpu = 0; gpu < free.size(); ++gpu) {
      const bool is_last = layout.gpus[gpu].last == num_layers() - 1 && !layout.gpus[gpu].empty();
      if (!is_last || bytes_.head > free[gpu]) continue;
      free[gpu] -= bytes_.head;
      layout.head_on_gpu = true;
    }
  }

  // Null when host memory is too small for the experts that do not fit into GPUs.
  std::optional<AutoLayout> place_experts(AutoLayout layout,
                                          std::vector<std::int64_t> free,
                                          bool is_streamed) const {
    for (std::size_t gpu = 0; gpu < free.size(); ++gpu) {
      GpuLayers& layers = layout.gpus[gpu];
      layers.streams = is_streamed && layers.first_host_experts() <= layers.last &&
                       bytes_.stream_buffers <= free[gpu];
      if (layers.streams) free[gpu] -= bytes_.stream_buffers;
    }
    if (!relieve_host(layout, free)) return std::nullopt;
    for (std::size_t gpu = 0; gpu < free.size(); ++gpu)
      add_copies(layout.gpus[gpu], free[gpu]);
    return layout;
  }

  // Moves the experts of whole layers to GPUs, to the one with the most free memory first, until
  // host memory holds the others.
  bool relieve_host(AutoLayout& layout, std::vector<std::int64_t>& free) const {
    std::int64_t on_host = host_bytes(layout);
    while (dram_ != 0 && on_host > static_cast<std::int64_t>(dram_)) {
      std::optional<std::size_t> target;
      for (std::size_t gpu = 0; gpu < free.size(); ++gpu) {
        const std::int64_t next = layout.gpus[gpu].first_host_experts();
        const bool can_take = next <= layout.gpus[gpu].last && at(next).experts <= free[gpu];
        if (can_take && (!target || free[gpu] > free[*target])) target = gpu;
      }
      if (!target) return false;
      GpuLayers& layers = layout.gpus[*target];
      const LayerBytes& moved = at(layers.first_host_experts());
      layers.last_experts = layers.first_host_experts();
      free[*target] -= moved.experts;
      on_host -= moved.packed_experts;
      if (layers.first_host_experts() > layers.last && layers.streams) {
        layers.streams = false;
        free[*target] += bytes_.stream_buffers;
      }
    }
    return true;
  }

  std::int64_t host_bytes(const AutoLayout& layout) const {
    std::int64_t sum = bytes_.embedding + bytes_.logits + bytes_.workspace;
    if (!layout.head_on_gpu) sum += bytes_.head;
    if (!layout.vision_gpu) sum += bytes_.vision;
    for (std::int64_t layer = 0; layer < num_layers(); ++layer) {
      const auto holder = std::ranges::find_if(layout.gpus, [&](const GpuLayers& layers) {
        return layer >= layers.first && layer <= layers.last;
      });
      const bool has_experts = holder != layout.gpus.end() && layer < holder->first_host_experts();
      if (!has_experts) sum += at(layer).packed_experts;
      if (holder == layout.gpus.end()) sum += dense_bytes(layer);
    }
    return sum;
  }

  void add_copies(GpuLayers& layers, std::int64_t free) const {
    std::int64_t one_per_layer = 0;
    for (std::int64_t layer = layers.first_host_experts(); layer <= layers.last; ++layer)
      one_per_layer += at(layer).packed_experts / std::max<std::int64_t>(bytes_.num_experts, 1) + 1;
    if (!layers.streams || one_per_layer == 0) return;
    layers.copies = std::min(free / one_per_layer, bytes_.num_experts);
  }

  const ModelBytes& bytes_;
  std::uint64_t dram_;  // 0: unknown
  std::int64_t cached_tokens_;
  bool vision_on_gpu_;
  std::vector<std::int64_t> capacity_;  // of each GPU, for weights, KV cache and stream buffers
};

// A tower on a CPU takes seconds per picture, so that it comes before layers of the text model, in
// a quarter of a GPU at most.
bool fits_vision(const ModelBytes& bytes, const MachineFigures& machine) {
  return bytes.vision > 0 && bytes.has_gpu_vision && !machine.gpus.empty() &&
         4 * bytes.vision <= static_cast<std::int64_t>(machine.gpus.front().vram_bytes);
}

// Longest first.
std::vector<std::int64_t> contexts_to_try(const plan::Blueprint& blueprint, std::int64_t wanted) {
  if (wanted > 0) return {wanted};
  std::vector<std::int64_t> contexts = {default_context(blueprint)};
  while (contexts.back() / 2 >= kMinContext)
    contexts.push_back(contexts.back() / 2);
  return contexts;
}

// Whether a layout with workspace for longer passes is better.
bool is_better(const AutoLayout& longer, const AutoLayout& shorter) {
  bool streams = false;
  for (std::size_t gpu = 0; gpu < longer.gpus.size(); ++gpu) {
    const GpuLayers& a = longer.gpus[gpu];
    const GpuLayers& b = shorter.gpus[gpu];
    streams = streams || a.streams;
    if (a.streams != b.streams || a.last_experts != b.last_experts ||
        !prefers_long_passes(a.copies, b.copies, longer.num_experts))
      return false;
  }
  return streams;
}

// Of all GPUs that have layers with experts in host memory.
bool streams_host_experts(const AutoLayout& layout) {
  return std::ranges::all_of(layout.gpus, [](const GpuLayers& layers) {
    return layers.streams || layers.first_host_experts() > layers.last;
  });
}

}  // namespace

std::int64_t GpuLayers::first_host_experts() const {
  return std::max(first_experts, last_experts + 1);
}

std::vector<AutoLayout> possible_layouts(const plan::Blueprint& blueprint,
                                         const MachineFigures& machine,
                                         const Workload& load) {
  const std::vector<std::int64_t> contexts = contexts_to_try(blueprint, load.context);
  // Null, or the layout with what it was made for.
  const auto attempt = [&](std::int64_t context, std::int64_t tokens, auto place) {
    const Workload placed = {
        .context = context, .parallel = load.parallel, .prefill_tokens = tokens};
    const ModelBytes bytes = count_bytes(blueprint, placed);
    const bool has_vision = fits_vision(bytes, machine);
    const std::int64_t cached_tokens = context * load.parallel;
    std::optional<AutoLayout> layout = place(Layouter(bytes, machine, cached_tokens, has_vision));
    if (!layout && has_vision) layout = place(Layouter(bytes, machine, cached_tokens, false));
    if (layout) {
      layout->context = context;
      layout->prefill_tokens = tokens;
    }
    return layout;
  };
  const std::int64_t tokens = load.prefill_tokens > 0 ? load.prefill_tokens : kPlacedTokens;
  const std::int64_t streamed = load.prefill_tokens > 0 ? load.prefill_tokens : kStreamedTokens;
  const auto everything = [](const Layouter& model) { return model.place_everything(); };
  const auto hybrid = [](const Layouter& model) { return model.place_hybrid(); };
  for (const std::int64_t context : contexts) {
    if (auto layout = attempt(context, tokens, everything)) return {*layout};
  }
  std::vector<AutoLayout> layouts;
  for (const std::int64_t context : contexts) {
    const auto shorter = attempt(context, tokens, hybrid);
    if (!shorter) continue;
    const auto longer = attempt(context, streamed, hybrid);
    layouts.push_back(longer && is_better(*longer, *shorter) ? *longer : *shorter);
    break;
  }
  if (!layouts.empty() && streams_host_experts(layouts.front())) return layouts;
  const auto some_layers = [&](bool streams) {
    return *attempt(contexts.back(), tokens, [&](const Layouter& model) {
      return std::optional(model.place_some_layers(streams));
    });
  };
  if (layouts.empty()) layouts.push_back(some_layers(false));
  layouts.push_back(some_layers(true));
  layouts.push_back(*attempt(contexts.back(), tokens, [](const Layouter& model) {
    AutoLayout on_cpu = model.empty_layout();
    on_cpu.vision_gpu = {};
    return std::optional(on_cpu);
  }));
  return layouts;
}

}  // namespace graft::perf
