// The adapters of a model: for each linear layer that some adapter changes, a LoraLayer on the
// device of the layer's caller.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graft/models/build/operators.h"
#include "graft/models/lora/adapter.h"
#include "graft/ops/lora.h"
#include "graft/ops/pass.h"
#include "graft/plan/plan.h"

namespace graft::models {

class LoraLayers {
 public:
  // Both must outlive the layers.
  LoraLayers(const plan::Plan& plan, OperatorTree& operators)
      : plan_(plan), operators_(operators) {}

  // Between passes. Throws Error when an operator of the model cannot have an adapter; then nothing
  // has changed.
  void set(std::int32_t adapter, const Adapter& source);
  void clear(std::int32_t adapter);
  std::optional<std::int32_t> first() const;  // an adapter that is set
  // Bytes of all adapters by device.
  const std::map<Device, std::uint64_t>& bytes() const { return bytes_; }
  static std::map<Device, std::uint64_t> bytes_of(const Adapter& adapter, const plan::Plan& plan);

  // The adapters of the rows of a batch; null: no row has one. Valid until the next call.
  const ops::LoraRows* rows_of(const ops::Batch& batch);

 private:
  // One layer per operator: phases may have different ones.
  struct Layer {
    Device device;
    std::unique_ptr<ops::LoraLayer> layer;
  };
  // The two halves of an absorbed kv_b_proj.
  struct KvB {
    ops::Attention* attention = nullptr;
    Device device;
    std::unique_ptr<ops::LoraLayer> keys;
    std::unique_ptr<ops::LoraLayer> values;
  };

  void set_module(std::int32_t adapter, const AdapterModule& found);
  std::map<ops::Linear*, Layer>& layers_of(const plan::ModuleSpec& module);
  std::vector<KvB>& kv_b_of(const plan::ModuleSpec& module);
  std::unique_ptr<ops::LoraLayer> make(Device device, const ops::LoraSize& size) const;

  const plan::Plan& plan_;
  OperatorTree& operators_;
  std::map<std::string, std::map<ops::Linear*, Layer>> layers_;  // by module
  std::map<std::string, std::vector<KvB>> kv_b_;
  std::array<std::map<Device, std::uint64_t>, ops::kMaxAdapters> bytes_of_adapter_;
  std::map<Device, std::uint64_t> bytes_;
  ops::LoraRows rows_;
  ops::LoraRows logit_rows_;
};

}  // namespace graft::models
