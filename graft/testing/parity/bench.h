// A small module on one device, and passes over it. The same code builds and runs the operator
// under test and its reference: the default CPU operators in F32 arithmetic on dequantized weights.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graft/base/error.h"
#include "graft/ops/devices/device_context.h"
#include "graft/ops/registry.h"
#include "graft/testing/ops.h"
#include "graft/testing/parity/batch.h"

namespace graft::ops::testing {

struct ParitySetting {
  DType weights = DType::F32;
  // Operators that have a kwarg for F32 arithmetic get it.
  bool is_precise = false;
  Kwargs kwargs = {};  // additional ones of the operator under test
};

class OperatorBench {
 public:
  // On the device of the operator under test; null: for the reference.
  OperatorBench(const Registry& registry,
                PassDevices& devices,
                ThreadPool& pool,
                const OperatorInfo* subject,
                ParitySetting setting);

  // Weights of the module "m"; names begin with the child's name ("q_proj.weight").
  void add_matrix(const std::string& name, std::int64_t rows, std::int64_t cols);
  // The same with columns in an order of the weight (Weight::column_order).
  void add_ordered_matrix(const std::string& name,
                          std::int64_t rows,
                          std::int64_t cols,
                          const std::vector<std::int32_t>& order);
  void add_f32_matrix(const std::string& name, std::int64_t rows, std::int64_t cols);
  void add_vector(const std::string& name, std::int64_t count, float size, float center);
  void add_indices(const std::string& name,
                   std::int64_t cols,
                   const std::vector<std::int32_t>& values);

  // Adds the device's default operator as a child, after its weights and children.
  template <class Op>
  Op& add_child(const std::string& name, Role role, const Params& params) {
    return as<Op>(add(name, default_operator(role, params), params, {}));
  }
  void add_linear(const std::string& name, const LinearParams& params);
  void add_norm(const std::string& name, std::int64_t size);
  // Adds the operator under test, after its weights and children.
  template <class Op>
  Op& add_subject(Role role, const Params& params) {
    const OperatorInfo& chosen = subject_ != nullptr ? *subject_ : default_operator(role, params);
    return as<Op>(add("", chosen, params, subject_ != nullptr ? setting_.kwargs : Kwargs{}));
  }

  // Whether any operator has a kwarg for F32 arithmetic.
  bool has_precise_kwargs() const { return has_precise_kwargs_; }
  Device device() const { return device_; }
  PassDevices& devices() { return devices_; }
  ThreadPool& pool() { return pool_; }

 private:
  template <class Op>
  static Op& as(Operator& op) {
    auto* typed = dynamic_cast<Op*>(&op);
    if (typed == nullptr) fail("the operator has another role");
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
  bool is_exact = false;  // must be bit-identical (indices)
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
  // [rows, cols] of NaN or -1, which reveals values that are not written.
  TensorView unwritten(std::int64_t cols, DType dtype = DType::F32);
  // Copies rows allocated by the functions above. Throws Error when memory behind them was written.
  ParityResult download(const std::string& name, TensorView view);

 private:
  TensorView allocate(DType dtype, std::int64_t cols);

  OperatorBench& bench_;
  Workspace::Scope scope_;
  Pass pass_;
  unsigned num_inputs_ = 0;
};

}  // namespace graft::ops::testing
