// A LoRA adapter on the modules of a model: its matrices as f32 in the order of rows of the model's
// linear layers, whatever order the adapter's file has.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graft/formats/adapters/adapter_file.h"
#include "graft/llm.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/ops/lora.h"
#include "graft/plan/blueprint.h"

namespace graft::models {

using graft::AdapterInfo;
using graft::AdapterSource;

// "NAME=PATH" or "NAME=PATH:SCALE". Throws Error for another form, and for names that cannot be
// part of a model's name.
AdapterSource parse_adapter_source(std::string_view text);
void check_adapter_name(std::string_view name);

struct AdapterModule {
  const plan::ModuleSpec* module = nullptr;  // a linear layer
  ops::LoraMatrices matrices;                // a [rank, in], b [out, rank]

  std::uint64_t bytes() const { return (matrices.a.size() + matrices.b.size()) * sizeof(float); }
};

class Adapter {
 public:
  // Reads all matrices. `base` and `blueprint` are those of the model, which must outlive the
  // adapter. Throws Error that names the tensor when the adapter does not fit the model.
  Adapter(AdapterSource source, const Checkpoint& base, const plan::Blueprint& blueprint);

  const AdapterSource& source() const { return source_; }
  const std::string& name() const { return source_.name; }
  const std::vector<AdapterModule>& modules() const { return modules_; }
  // That the adapter's file names another base model than the one it is on, although the shapes
  // fit; empty: the names agree, or one of them is unknown.
  const std::string& base_warning() const { return base_warning_; }
  std::uint64_t bytes() const;  // of all matrices
  std::int64_t max_rank() const;
  // Hash of the matrices, their modules and scales: equal in every process, never 0.
  std::uint64_t identity() const { return identity_; }
  AdapterInfo info() const {
    return {.source = source_, .bytes = bytes(), .max_rank = max_rank(), .identity = identity_};
  }

 private:
  AdapterSource source_;
  std::vector<AdapterModule> modules_;
  std::uint64_t identity_ = 0;
  std::string base_warning_;
};

}  // namespace graft::models
