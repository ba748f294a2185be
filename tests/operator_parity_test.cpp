// Every operator of the CPU, of the test devices and of the example plugin against the reference,
// and a check that the comparison finds wrong operators.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/ops/plugin/plugin.h"
#include "graft/testing/device.h"
#include "graft/testing/parity/parity.h"

namespace graft::ops::testing {
namespace {

Registry all_operators() {
  Registry registry = with_test_devices(1);
  add_plugin(graft_plugin, registry);  // examples/custom_operator, linked into this program
  return registry;
}

class OperatorParity : public ::testing::TestWithParam<Role> {};

TEST_P(OperatorParity, MatchesTheReference) {
  const Registry registry = all_operators();
  const ParityReport report = check_role(registry, GetParam());
  for (const std::string& finding : report.findings)
    ADD_FAILURE() << finding;
  for (const OperatorInfo* op : registry.of_role(GetParam()))
    EXPECT_TRUE(report.by_operator.contains(op->name)) << "no case fits " << op->name;
  std::cout << report.text();
}

std::string test_name(const ::testing::TestParamInfo<Role>& info) {
  return std::string(name(info.param));
}

INSTANTIATE_TEST_SUITE_P(Roles, OperatorParity, ::testing::ValuesIn(parity_roles()), test_name);

TEST(OperatorParityTest, CoversTheRoleOfEveryOperator) {
  const Registry registry = all_operators();
  for (const OperatorInfo* op : registry.all()) {
    // On CPUs only, compared with Transformers in graft/models/vision_golden_test.cpp.
    if (is_vision(op->role)) continue;
    EXPECT_NE(std::ranges::find(parity_roles(), op->role), parity_roles().end()) << op->name;
  }
}

// Forwards to the CPU operator of the role; each subclass adds an error that is easy to overlook.
template <class Base>
class Wrong : public Base {
 public:
  explicit Wrong(std::unique_ptr<Operator> op)
      : owned_(std::move(op)), op_(dynamic_cast<Base&>(*owned_)) {}
  void load(WeightProvider& weights) override { owned_->load(weights); }

 protected:
  std::unique_ptr<Operator> owned_;
  Base& op_;
};

class LinearWithoutTheLastRow final : public Wrong<Linear> {
 public:
  using Wrong::Wrong;
  void forward(const Activation& x, TensorView y, Pass& pass) override {
    if (x.rows() > 32) return op_.forward(x.f32.slice(0, 32), y.slice(0, 32), pass);
    op_.forward(x, y, pass);
  }
};

class LinearWithTwoPercentError final : public Wrong<Linear> {
 public:
  using Wrong::Wrong;
  void forward(const Activation& x, TensorView y, Pass& pass) override {
    op_.forward(x, y, pass);
    for (std::int64_t i = 0; i < y.num_elems(); ++i)
      y.f32()[i] *= 1.02F;
  }
};

class NormPastTheEnd final : public Wrong<Norm> {
 public:
  using Wrong::Wrong;
  void forward(TensorView x, TensorView y, Pass& pass) override {
    op_.forward(x, y, pass);
    y.f32_row(y.rows())[0] = 0;
  }
};

class NormThatThrows final : public Wrong<Norm> {
 public:
  using Wrong::Wrong;
  void forward(TensorView x, TensorView y, Pass& pass) override {
    if (x.rows() == 0) fail("no rows");
    op_.forward(x, y, pass);
  }
};

class RouterInAnotherOrder final : public Wrong<Router> {
 public:
  using Wrong::Wrong;
  std::int64_t top_k() const override { return op_.top_k(); }
  void forward(TensorView x, Routing out, Pass& pass) override {
    op_.forward(x, out, pass);
    if (x.rows() == 0) return;
    std::swap(out.expert_ids.as<std::int32_t>()[0], out.expert_ids.as<std::int32_t>()[1]);
    std::swap(out.weights.f32()[0], out.weights.f32()[1]);
  }
};

class AttentionWithoutCachedTokens final : public Wrong<Attention> {
 public:
  using Wrong::Wrong;
  // Ignores the cached tokens of earlier chunks.
  void forward(const Activation& x, TensorView y, Pass& pass) override {
    Batch batch = pass.batch;
    for (SequenceSlice& sequence : batch.sequences)
      sequence.context_len = sequence.num_tokens;
    Pass changed = {.batch = batch,
                    .phase = pass.phase,
                    .pool = pass.pool,
                    .workspace = pass.workspace,
                    .devices = pass.devices};
    op_.forward(x, y, changed);
  }
};

// The findings for Op, which wraps the default CPU operator of the role.
template <class Op>
std::vector<std::string> findings_of(Role role, const Params& params) {
  Registry registry = builtin_operators();
  const OperatorInfo* right = registry.default_for(role, DeviceType::Cpu, params);
  OperatorInfo wrong = *right;
  wrong.name = "wrong";
  wrong.accepts = [](DType type) { return type == DType::F32 || type == DType::Q4_K; };
  wrong.make = [right](const BuildContext& context) {
    return std::make_unique<Op>(right->make(context));
  };
  registry.add(std::move(wrong));
  return check_operator(registry, *registry.find("wrong")).findings;
}

bool mentions(const std::vector<std::string>& findings, std::string_view text) {
  return std::ranges::any_of(findings, [&](const std::string& finding) {
    return finding.find(text) != std::string::npos;
  });
}

TEST(OperatorParityTest, ReportsWrongLinears) {
  EXPECT_TRUE(mentions(findings_of<LinearWithoutTheLastRow>(Role::Linear, LinearParams{}),
                       "33 rows: y: error inf"));
  EXPECT_TRUE(mentions(findings_of<LinearWithTwoPercentError>(Role::Linear, LinearParams{}),
                       "Q4_K, 1 rows: y: error 0.0"));
}

TEST(OperatorParityTest, ReportsWrongNorms) {
  EXPECT_TRUE(mentions(findings_of<NormPastTheEnd>(Role::Norm, NormParams{}),
                       "throws: y: memory behind the last row was written"));
  EXPECT_TRUE(mentions(findings_of<NormThatThrows>(Role::Norm, NormParams{}), "throws: no rows"));
}

TEST(OperatorParityTest, ReportsWrongRouters) {
  EXPECT_TRUE(
      mentions(findings_of<RouterInAnotherOrder>(Role::Router, RouterParams{}), "expert ids"));
}

TEST(OperatorParityTest, ReportsWrongAttention) {
  EXPECT_TRUE(
      mentions(findings_of<AttentionWithoutCachedTokens>(Role::Attention, AttentionParams{}),
               "plain, F32, 1 rows: y"));
}

}  // namespace
}  // namespace graft::ops::testing
