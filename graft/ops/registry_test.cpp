#include "graft/ops/registry.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::ops {
namespace {

OperatorInfo named(std::string name, Role role) {
  return {.name = std::move(name), .role = role};
}

TEST(Registry, FindsByNameAndRoleInOrder) {
  Registry registry;
  registry.add(named("b", Role::Linear));
  registry.add(named("a", Role::Linear));
  registry.add(named("n", Role::Norm));
  ASSERT_NE(registry.find("a"), nullptr);
  EXPECT_EQ(registry.find("a")->name, "a");
  EXPECT_EQ(registry.find("c"), nullptr);
  const auto linears = registry.of_role(Role::Linear);
  ASSERT_EQ(linears.size(), 2U);
  EXPECT_EQ(linears[0]->name, "b");
  EXPECT_EQ(registry.default_for(Role::Linear, DeviceType::Cpu, NoParams{})->name, "b");
  EXPECT_EQ(registry.default_for(Role::Linear, DeviceType::Cuda, NoParams{}), nullptr);
}

TEST(Registry, RejectsDuplicateNames) {
  Registry registry;
  registry.add(named("a", Role::Linear));
  EXPECT_THROW(registry.add(named("a", Role::Norm)), Error);
}

TEST(Registry, CpuImplementsEveryRoleThatComputes) {
  const Registry registry = builtin_operators();
  for (const Role role : {Role::Embedding, Role::Norm, Role::Linear, Role::Rope, Role::KvCache,
                          Role::Mlp, Role::Moe, Role::Router, Role::Experts})
    EXPECT_NE(registry.default_for(role, DeviceType::Cpu, NoParams{}), nullptr) << name(role);
}

TEST(Registry, ParamsSelectTheAttentionVariant) {
  const Registry registry = builtin_operators();
  EXPECT_EQ(registry.default_for(Role::Attention, DeviceType::Cpu, AttentionParams{})->name,
            "cpu.attention");
  EXPECT_EQ(registry.default_for(Role::Attention, DeviceType::Cpu, MlaParams{})->name, "cpu.mla");
}

TEST(BuildContext, ParsesKwargsAndRejectsInvalidValues) {
  const Kwargs kwargs = {{"yes", "True"}, {"no", "false"}, {"n", "-12"}, {"odd", "1x"}};
  BuildContext context;
  context.module = "m";
  EXPECT_TRUE(context.bool_kwarg("yes", true));
  EXPECT_EQ(context.text_kwarg("n", "7"), "7");
  context.kwargs = &kwargs;
  EXPECT_TRUE(context.bool_kwarg("yes", false));
  EXPECT_FALSE(context.bool_kwarg("no", true));
  EXPECT_TRUE(context.bool_kwarg("absent", true));
  EXPECT_EQ(context.int_kwarg("n", 3), -12);
  EXPECT_EQ(context.int_kwarg("absent", 3), 3);
  EXPECT_EQ(context.double_kwarg("n", 3), -12);
  EXPECT_EQ(context.double_kwarg("absent", 0.5), 0.5);
  EXPECT_THROW(context.double_kwarg("odd", 0.5), Error);
  EXPECT_THROW(context.bool_kwarg("odd", true), Error);
  EXPECT_THROW(context.int_kwarg("odd", 0), Error);
  EXPECT_THROW(context.int_kwarg("yes", 0), Error);
}

}  // namespace
}  // namespace graft::ops
