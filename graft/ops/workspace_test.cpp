#include <array>

#include <gtest/gtest.h>

#include "graft/ops/pass.h"
#include "graft/ops/profiler.h"
#include "graft/ops/registry.h"
#include "graft/testing/ops.h"

namespace graft::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

TEST(Workspace, AllocationsAreAlignedAndDoNotOverlap) {
  Workspace workspace;
  const TensorView a = workspace.f32({3});
  const TensorView b = workspace.allocate(DType::U8, {1});
  const TensorView c = workspace.f32({2, 5});
  for (const TensorView& view : {a, b, c})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data) % 64, 0U);
  EXPECT_EQ(static_cast<std::byte*>(b.data) - static_cast<std::byte*>(a.data), 64);
  EXPECT_EQ(c.rows(), 2);
  EXPECT_EQ(c.cols(), 5);
}

TEST(Workspace, ScopeFreesItsAllocations) {
  Workspace workspace;
  const TensorView outer = workspace.f32({10});
  const float* first = nullptr;
  {
    const Workspace::Scope scope(workspace);
    first = workspace.f32({10}).f32();
    EXPECT_NE(first, outer.f32());
    workspace.f32({1 << 20});  // another chunk
  }
  EXPECT_EQ(workspace.f32({10}).f32(), first);
}

TEST(Workspace, RepeatedPassAllocatesNoMemory) {
  Workspace workspace;
  const auto pass = [&] {
    const Workspace::Scope scope(workspace);
    workspace.f32({1000});
    for (std::int64_t layer = 0; layer < 5; ++layer) {
      const Workspace::Scope inner(workspace);
      workspace.f32({layer * 300, 1000});
      workspace.f32({700, 300});
    }
  };
  pass();
  const std::size_t bytes = workspace.peak_bytes();
  EXPECT_GT(bytes, 1300U * 1000 * 4);
  pass();
  pass();
  EXPECT_EQ(workspace.peak_bytes(), bytes);
}

TEST(Workspace, OperatorsReuseItBetweenPasses) {
  Random random;
  TestModel model;
  model.add_linear("m.gate_proj", 300, 200, random);
  model.add_linear("m.up_proj", 300, 200, random);
  model.add_linear("m.down_proj", 200, 300, random);
  auto& mlp =
      model.add<Mlp>("cpu.mlp", "m", MlpParams{.hidden_size = 200, .intermediate_size = 300});
  ScheduleRunner runner(200, 200);
  const auto forward = [&](TensorView x, TensorView y, Pass& pass) { mlp.forward(x, y, pass); };
  runner.run({{{0, 100}}}, 2, forward);
  const std::size_t bytes = runner.workspace.peak_bytes();
  EXPECT_GT(bytes, 0U);
  runner.run({{{0, 100}}, {{0, 7}, {1, 90}}}, 2, forward);
  EXPECT_EQ(runner.workspace.peak_bytes(), bytes);
}

TEST(Profiler, CountsCallsAndTimePerModule) {
  Profiler profiler;
  const std::string module = "model.norm";
  ThreadPool pool(1);
  const Registry registry = builtin_operators();
  PassDevices devices(registry);
  const Batch batch;
  Pass pass = {.batch = batch,
               .pool = pool,
               .workspace = devices.at(kCpu).workspace(),
               .profiler = &profiler,
               .devices = &devices};
  for (int i = 0; i < 3; ++i)
    const ProfileScope scope(pass, kCpu, module);
  pass.profiler = nullptr;
  { const ProfileScope scope(pass, kCpu, module); }
  EXPECT_TRUE(profiler.entries().empty()) << "read when the pass is finished";
  profiler.finish_pass();
  ASSERT_EQ(profiler.entries().size(), 1U);
  EXPECT_EQ(profiler.entries().at(module).calls, 3);
  EXPECT_GE(profiler.entries().at(module).seconds, 0.0);
}

TEST(Profiler, JoinsTheNamesOfFusedModules) {
  Profiler profiler;
  ThreadPool pool(1);
  Workspace workspace;
  const Batch batch;
  const Pass pass = {.batch = batch, .pool = pool, .workspace = workspace, .profiler = &profiler};
  const std::string q = "layer.q_proj";
  const std::string k = "layer.k_proj";
  const std::array modules = {&q, &k};
  EXPECT_EQ(fused_name(pass, modules), "layer.q_proj+k_proj");
}

}  // namespace
}  // namespace graft::ops
