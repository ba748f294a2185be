// A small module on one device, and passes over it. The same code builds and runs the operator
// under test and its reference: the default operators of the CPU with exact arithmetic, whose
// weights are the decoded ones.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graft/base/error.h"
#include "graft/ops/device_context.h"
#include "graft/ops/registry.h"
#include "graft/testing/ops.h"
#include "graft/testing/parity/batch.h"

namespace graft::ops::testing {

struct ParitySetting {
  DType weights = DType::F32;
  // Operators get the kwargs that make them compute in F32, where they know such.
  bool is_precise = false;
  Kwargs kwargs = {};  // of the operator under test, beside these
};

class OperatorBench {
 public:
  // Of the reference when `subject` is null; else of the device of the subject.
  OperatorBench(const Registry& registry,
                PassDevices& devices,
                ThreadPool& pool,
                const OperatorInfo* subject,
                ParitySetting setting);

  // The weights of the module "m"; names begin with a child's ("q_proj.weight").
  void add_matrix(const std::string& name, std::int64_t rows, std::int64_t cols);
  void add_f32_matrix(const std::string& name, std::int64_t rows, std::int64_t cols);
  void add_vector(const std::string& name, std::int64_t count, float size, float center);

  // The device's default operator as a child. Its weights and children were added before.
  template <class Op>
  Op& add_child(const std::string& name, Role role, const Params& params) {
    return as<Op>(add(name, default_operator(role, params), params, {}));
  }
  void add_linear(const std::string& name, const LinearParams& params);
  void add_norm(const std::string& name, std::int64_t size);
  // The operator under test. Its weights and children were added before.
  template <class Op>
  Op& add_subject(Role role, const Params& params) {
    const OperatorInfo& chosen = subject_ != nullptr ? *subject_ : default_operator(role, params);
    return as<Op>(add("", chosen, params, subject_ != nullptr ? setting_.kwargs : Kwargs{}));
  }

  // Whether some operator knows a kwarg for exact arithmetic.
  bool has_precise_kwargs() const { return has_precise_kwargs_; }
  Device device() const { return device_; }
  PassDevices& devices() { return devices_; }
  ThreadPool& pool() { return pool_; }

 private:
  template <class Op>
  static Op& as(Operator& op) {
    auto* typed = dynamic_cast<Op*>(&op);
    if (typed == nullptr) fail("is an operator of another role");
    return *typed;
  }
  const OperatorInfo& default_operator(Role role, const Params& params) const;
  Kwargs precise_kwargs(const OperatorInfo& info);
  void add_weight(const Weight& weight);
  Operator& add(const std::string& name,
                const OperatorInfo& info,
                const Params& params,
                Kwargs kwargs);

  const Registry& registry_;
  PassDevices& devices_;
  ThreadPool& pool_;
  const OperatorInfo* subject_;
  ParitySetting setting_;
  Device device_;
  bool has_precise_kwargs_ = false;
  TestWeights weights_;
  struct BuiltOperator {
    std::unique_ptr<Operator> op;
    bool is_native = false;
  };
  std::map<std::string, BuiltOperator> operators_;  // by module
};

// A result that is compared row by row: values[rows, cols].
struct ParityResult {
  std::string name;
  std::int64_t cols = 0;
  Floats values;
  bool is_exact = false;  // not a bit may differ, whatever the tolerance: indices
};

// One pass on the bench's device.
class DeviceRun {
 public:
  DeviceRun(OperatorBench& bench, const Batch& batch, Phase phase);

  Pass& pass() { return pass_; }
  const Batch& batch() const { return pass_.batch; }
  std::int64_t rows() const { return pass_.batch.num_tokens(); }

  // [rows, cols] in [-1, 1]; the n-th call gives the same values in every run of the batch.
  TensorView random_rows(std::int64_t cols);
  TensorView upload(const Floats& values, std::int64_t cols);
  TensorView upload(const std::vector<std::int32_t>& values, std::int64_t cols);
  // [rows, cols] of NaN or -1, so that values that are not written show.
  TensorView unwritten(std::int64_t cols, DType dtype = DType::F32);
  // Rows from above. Throws Error when what follows them in memory was written.
  ParityResult download(const std::string& name, TensorView view);

 private:
  TensorView allocate(DType dtype, std::int64_t cols);

  OperatorBench& bench_;
  Workspace::Scope scope_;
  Pass pass_;
  unsigned num_inputs_ = 0;
};

}  // namespace graft::ops::testing
