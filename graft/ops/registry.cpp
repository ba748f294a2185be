#include "graft/ops/registry.h"

#include <algorithm>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/devices/device_context.h"
#include "graft/ops/fusions.h"
#include "graft/ops/primitives.h"

namespace graft::ops {
namespace {

// The text of a kwarg. Throws Error when it is not a value of the kwarg.
std::string checked_text(const BuildContext& context, const Kwarg& kwarg) {
  if (!context.has_kwarg(kwarg.key)) return kwarg.fallback;
  std::string text = context.kwargs->find(kwarg.key)->second;
  const Params none = NoParams{};
  const std::string problem =
      value_problem(kwarg, text, context.params == nullptr ? none : *context.params);
  if (!problem.empty()) fail(context.module, ": ", problem);
  return text;
}

}  // namespace

bool BuildContext::has_kwarg(std::string_view key) const {
  return kwargs != nullptr && kwargs->find(key) != kwargs->end();
}

std::string BuildContext::word_kwarg(const Kwarg& kwarg) const {
  const auto word = parse_word(kwarg, checked_text(*this, kwarg));
  GRAFT_CHECK(word.has_value(), "the fallback of ", kwarg.key, " is not one of its words");
  return *word;
}

bool BuildContext::bool_kwarg(const Kwarg& kwarg) const {
  const auto value = parse_bool(checked_text(*this, kwarg));
  GRAFT_CHECK(value.has_value(), "the fallback of ", kwarg.key, " is not a bool");
  return *value;
}

std::int64_t BuildContext::int_kwarg(const Kwarg& kwarg) const {
  const auto value = parse_integer(kwarg, checked_text(*this, kwarg));
  GRAFT_CHECK(value.has_value(), "the fallback of ", kwarg.key, " is not in its range");
  return *value;
}

double BuildContext::double_kwarg(const Kwarg& kwarg) const {
  const auto value = parse_number(kwarg, checked_text(*this, kwarg));
  GRAFT_CHECK(value.has_value(), "the fallback of ", kwarg.key, " is not in its range");
  return *value;
}

std::string BuildContext::text_kwarg(std::string_view key, std::string_view fallback) const {
  return has_kwarg(key) ? kwargs->find(key)->second : std::string(fallback);
}

bool BuildContext::bool_kwarg(std::string_view key, bool fallback) const {
  if (!has_kwarg(key)) return fallback;
  return bool_kwarg(Kwarg{.key = std::string(key), .kind = Kwarg::Kind::Bool});
}

std::int64_t BuildContext::int_kwarg(std::string_view key, std::int64_t fallback) const {
  if (!has_kwarg(key)) return fallback;
  return int_kwarg(Kwarg{.key = std::string(key), .kind = Kwarg::Kind::Integer});
}

double BuildContext::double_kwarg(std::string_view key, double fallback) const {
  if (!has_kwarg(key)) return fallback;
  return double_kwarg(Kwarg{.key = std::string(key), .kind = Kwarg::Kind::Number});
}

const Kwarg* OperatorInfo::find_kwarg(std::string_view key) const {
  const auto found = std::find_if(kwargs.begin(), kwargs.end(),
                                  [&](const Kwarg& kwarg) { return kwarg.key == key; });
  return found == kwargs.end() ? nullptr : &*found;
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
    if (info->role == role && info->device == device && info->supports(params)) return info.get();
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
