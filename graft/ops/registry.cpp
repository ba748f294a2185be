#include "graft/ops/registry.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "graft/base/error.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/device_context.h"
#include "graft/ops/fusions.h"
#include "graft/ops/primitives.h"

namespace graft::ops {

std::string BuildContext::text_kwarg(std::string_view key, std::string_view fallback) const {
  if (kwargs == nullptr) return std::string(fallback);
  const auto found = kwargs->find(key);
  return found == kwargs->end() ? std::string(fallback) : found->second;
}

bool BuildContext::bool_kwarg(std::string_view key, bool fallback) const {
  constexpr std::array<std::string_view, 3> kTrue = {"true", "True", "TRUE"};
  constexpr std::array<std::string_view, 3> kFalse = {"false", "False", "FALSE"};
  const std::string text = text_kwarg(key, fallback ? "true" : "false");
  if (std::ranges::find(kTrue, text) != kTrue.end()) return true;
  if (std::ranges::find(kFalse, text) != kFalse.end()) return false;
  fail(module, ": ", key, " is '", text, "', expected true or false");
}

std::int64_t BuildContext::int_kwarg(std::string_view key, std::int64_t fallback) const {
  const std::string text = text_kwarg(key, std::to_string(fallback));
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) {
    fail(module, ": ", key, " is '", text, "', expected an integer");
  }
  return value;
}

double BuildContext::double_kwarg(std::string_view key, double fallback) const {
  if (kwargs == nullptr || !kwargs->contains(key)) return fallback;
  const std::string text = text_kwarg(key, "");
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) {
    fail(module, ": ", key, " is '", text, "', expected a number");
  }
  return value;
}

void Registry::add(OperatorInfo info) {
  if (find(info.name) != nullptr) fail("duplicate operator name '", info.name, "'");
  operators_.push_back(std::make_unique<OperatorInfo>(std::move(info)));
}

const OperatorInfo* Registry::find(std::string_view name) const {
  const auto found =
      std::ranges::find_if(operators_, [&](const auto& info) { return info->name == name; });
  return found == operators_.end() ? nullptr : found->get();
}

std::vector<const OperatorInfo*> Registry::all() const {
  std::vector<const OperatorInfo*> found;
  for (const auto& info : operators_)
    found.push_back(info.get());
  return found;
}

std::vector<const OperatorInfo*> Registry::of_role(Role role) const {
  std::vector<const OperatorInfo*> found;
  for (const auto& info : operators_) {
    if (info->role == role) found.push_back(info.get());
  }
  return found;
}

const OperatorInfo* Registry::default_for(Role role,
                                          DeviceType device,
                                          const Params& params) const {
  for (const auto& info : operators_) {
    const bool fits = !info->fits || info->fits(params);
    if (info->role == role && info->device == device && fits) return info.get();
  }
  return nullptr;
}

void Registry::add_device(DeviceType type,
                          MakeDeviceContext make,
                          std::shared_ptr<Primitives> primitives) {
  devices_[type] = {.make_context = std::move(make), .primitives = std::move(primitives)};
}

const Registry::DeviceEntry& Registry::device(DeviceType type) const {
  const auto found = devices_.find(type);
  GRAFT_CHECK(found != devices_.end(), "no support for devices of type ",
              to_string(Device{.type = type}));
  return found->second;
}

std::unique_ptr<DeviceContext> Registry::make_device_context(Device where) const {
  return device(where.type).make_context(where);
}

Primitives& Registry::primitives(DeviceType type) const {
  return *device(type).primitives;
}

std::span<const Fusion> Registry::fusions(DeviceType type) const {
  const auto found = devices_.find(type);
  if (found != devices_.end()) return found->second.primitives->fusions();
  return type == DeviceType::Cuda ? cuda_fusions() : std::span<const Fusion>{};
}

Registry builtin_operators() {
  Registry registry;
  cpu::register_cpu(registry);
  return registry;
}

}  // namespace graft::ops
