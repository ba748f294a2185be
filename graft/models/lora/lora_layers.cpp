#include "graft/models/lora/lora_layers.h"

#include <algorithm>
#include <string_view>
#include <variant>

#include "graft/base/error.h"
#include "graft/ops/primitives.h"

namespace graft::models {
namespace {

constexpr std::array kPhases = {ops::Phase::Prefill, ops::Phase::Decode};

std::string parent_of(const plan::ModuleSpec& module) {
  const std::size_t dot = module.name.rfind('.');
  return dot == std::string::npos ? "" : module.name.substr(0, dot);
}

const ops::MlaParams* mla_of(const plan::Plan& plan, const plan::ModuleSpec& module) {
  if (module.last_name() != "kv_b_proj") return nullptr;
  const plan::ModuleSpec* parent = plan.blueprint->find(parent_of(module));
  return parent == nullptr ? nullptr : std::get_if<ops::MlaParams>(&parent->params);
}

// The rows of kv_b_proj of each head are its key rows [nope, rank], then its value rows. From a
// query to the latents: A is the transposed key rows of B, B the transposed A.
ops::LoraMatrices keys_of(const ops::LoraMatrices& both, const ops::MlaParams& mla) {
  const std::int64_t rows = mla.qk_nope_head_dim + mla.v_head_dim;
  ops::LoraMatrices keys = {.rank = both.rank, .scale = both.scale, .a = {}, .b = {}};
  for (std::int64_t head = 0; head < mla.num_heads; ++head) {
    for (std::int64_t i = 0; i < both.rank; ++i) {
      for (std::int64_t row = 0; row < mla.qk_nope_head_dim; ++row)
        keys.a.push_back(both.b[static_cast<std::size_t>((head * rows + row) * both.rank + i)]);
    }
  }
  for (std::int64_t col = 0; col < mla.kv_lora_rank; ++col) {
    for (std::int64_t i = 0; i < both.rank; ++i)
      keys.b.push_back(both.a[static_cast<std::size_t>(i * mla.kv_lora_rank + col)]);
  }
  return keys;
}

ops::LoraMatrices values_of(const ops::LoraMatrices& both, const ops::MlaParams& mla) {
  const std::int64_t rows = mla.qk_nope_head_dim + mla.v_head_dim;
  ops::LoraMatrices values = {.rank = both.rank, .scale = both.scale, .a = both.a, .b = {}};
  for (std::int64_t head = 0; head < mla.num_heads; ++head) {
    const auto first = both.b.begin() + (head * rows + mla.qk_nope_head_dim) * both.rank;
    values.b.insert(values.b.end(), first, first + mla.v_head_dim * both.rank);
  }
  return values;
}

std::uint64_t matrix_bytes(const ops::LoraMatrices& matrices) {
  return (matrices.a.size() + matrices.b.size()) * sizeof(float);
}

void append_adapters(ops::LoraRows& rows, std::int64_t count, std::int32_t adapter) {
  rows.adapters.insert(rows.adapters.end(), static_cast<std::size_t>(count), adapter);
}

}  // namespace

std::unique_ptr<ops::LoraLayer> LoraLayers::make(Device device, const ops::LoraSize& size) const {
  return plan_.registry->primitives(device.type).make_lora(device, size);
}

std::map<ops::Linear*, LoraLayers::Layer>& LoraLayers::layers_of(const plan::ModuleSpec& module) {
  auto& layers = layers_[module.name];
  if (!layers.empty()) return layers;
  const auto& params = std::get<ops::LinearParams>(module.params);
  for (const auto& [op, device] : operators_.callers_of(module.name)) {
    auto* linear = dynamic_cast<ops::Linear*>(op);
    if (linear == nullptr || layers.contains(linear)) continue;
    Layer layer = {.device = device,
                   .layer = make(device, {.in = params.in_features, .out = params.out_features})};
    linear->set_lora(layer.layer.get());
    layers.emplace(linear, std::move(layer));
  }
  if (layers.empty())
    fail(module.name, ": the operator of its parent computes it itself: it cannot have adapters");
  return layers;
}

std::vector<LoraLayers::KvB>& LoraLayers::kv_b_of(const plan::ModuleSpec& module) {
  std::vector<KvB>& all = kv_b_[module.name];
  if (!all.empty()) return all;
  const ops::MlaParams& mla = *mla_of(plan_, module);
  const std::string parent = parent_of(module);
  for (const ops::Phase phase : kPhases) {
    auto* attention = dynamic_cast<ops::Attention*>(operators_.at(parent).of(phase));
    const bool is_known =
        std::ranges::any_of(all, [&](const KvB& kv_b) { return kv_b.attention == attention; });
    if (attention == nullptr || is_known) continue;
    const Device device = operators_.device_of(parent, phase);
    KvB kv_b = {
        .attention = attention,
        .device = device,
        .keys = make(device,
                     {.in = mla.qk_nope_head_dim, .out = mla.kv_lora_rank, .heads = mla.num_heads}),
        .values =
            make(device, {.in = mla.kv_lora_rank, .out = mla.v_head_dim, .heads = mla.num_heads})};
    if (!attention->set_kv_b_lora(kv_b.keys.get(), kv_b.values.get()))
      fail(module.name, ": the operator of ", parent, " does not support adapters of it");
    all.push_back(std::move(kv_b));
  }
  return all;
}

void LoraLayers::set_module(std::int32_t adapter, const AdapterModule& found) {
  std::map<Device, std::uint64_t>& bytes = bytes_of_adapter_.at(static_cast<std::size_t>(adapter));
  const ops::MlaParams* mla = mla_of(plan_, *found.module);
  if (mla == nullptr || !operators_.callers_of(found.module->name).empty()) {
    for (auto& [linear, layer] : layers_of(*found.module)) {
      layer.layer->set(adapter, found.matrices);
      bytes[layer.device] += found.bytes();
    }
    return;
  }
  const ops::LoraMatrices keys = keys_of(found.matrices, *mla);
  const ops::LoraMatrices values = values_of(found.matrices, *mla);
  for (KvB& kv_b : kv_b_of(*found.module)) {
    kv_b.keys->set(adapter, keys);
    kv_b.values->set(adapter, values);
    bytes[kv_b.device] += matrix_bytes(keys) + matrix_bytes(values);
  }
}

void LoraLayers::set(std::int32_t adapter, const Adapter& source) {
  std::map<Device, std::uint64_t>& bytes = bytes_of_adapter_.at(static_cast<std::size_t>(adapter));
  try {
    for (const AdapterModule& found : source.modules())
      set_module(adapter, found);
  } catch (...) {
    bytes = {};
    clear(adapter);
    throw;
  }
  for (const auto& [device, count] : bytes)
    bytes_[device] += count;
}

void LoraLayers::clear(std::int32_t adapter) {
  for (auto& [name, layers] : layers_) {
    for (auto& [linear, layer] : layers)
      layer.layer->clear(adapter);
  }
  for (auto& [name, all] : kv_b_) {
    for (KvB& kv_b : all) {
      kv_b.keys->clear(adapter);
      kv_b.values->clear(adapter);
    }
  }
  auto& bytes = bytes_of_adapter_.at(static_cast<std::size_t>(adapter));
  for (const auto& [device, count] : bytes)
    bytes_[device] -= std::min(bytes_[device], count);
  bytes = {};
}

std::optional<std::int32_t> LoraLayers::first() const {
  for (std::size_t i = 0; i < bytes_of_adapter_.size(); ++i) {
    if (!bytes_of_adapter_[i].empty()) return static_cast<std::int32_t>(i);
  }
  return std::nullopt;
}

std::map<Device, std::uint64_t> LoraLayers::bytes_of(const Adapter& adapter,
                                                     const plan::Plan& plan) {
  std::map<Device, std::uint64_t> bytes;
  for (const AdapterModule& found : adapter.modules()) {
    const ops::MlaParams* mla = mla_of(plan, *found.module);
    const std::uint64_t needed = mla == nullptr ? found.bytes()
                                                : matrix_bytes(keys_of(found.matrices, *mla)) +
                                                      matrix_bytes(values_of(found.matrices, *mla));
    const std::string parent =
        mla != nullptr || found.module->layer >= 0 ? parent_of(*found.module) : found.module->name;
    bytes[plan.at(parent).running(ops::Phase::Decode).device()] += needed;
  }
  return bytes;
}

const ops::LoraRows* LoraLayers::rows_of(const ops::Batch& batch) {
  const bool has_adapters = std::ranges::any_of(
      batch.sequences, [](const ops::SequenceSlice& sequence) { return sequence.adapter >= 0; });
  if (!has_adapters) return nullptr;
  rows_.adapters.clear();
  for (const ops::SequenceSlice& sequence : batch.sequences) {
    append_adapters(rows_, sequence.first_row - static_cast<std::int64_t>(rows_.adapters.size()),
                    -1);
    append_adapters(rows_, sequence.num_tokens, sequence.adapter);
  }
  logit_rows_.adapters.clear();
  for (const std::int32_t row : batch.logit_rows)
    logit_rows_.adapters.push_back(rows_.adapters[static_cast<std::size_t>(row)]);
  logit_rows_.are_logit_rows = true;
  rows_.logit_rows = &logit_rows_;
  return &rows_;
}

}  // namespace graft::models
