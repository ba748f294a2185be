#include "graft/testing/parity/bench.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "graft/testing/parity/weights.h"

namespace graft::ops::testing {
namespace {

const std::string kModule = "m";
// Fills memory before an operator runs: NaN as floats, -1 as indices.
constexpr int kUnwritten = 0xff;

std::string full_name(const std::string& name) {
  return name.empty() ? kModule : str(kModule, ".", name);
}

Device device_of(const OperatorInfo* subject) {
  return subject == nullptr ? kCpu : Device{.type = subject->device, .index = 0};
}

}  // namespace

OperatorBench::OperatorBench(const Registry& registry,
                             PassDevices& devices,
                             ThreadPool& pool,
                             const OperatorInfo* subject,
                             ParitySetting setting)
    : registry_(registry),
      devices_(devices),
      pool_(pool),
      subject_(subject),
      setting_(std::move(setting)),
      device_(device_of(subject)) {
  if (subject == nullptr) setting_.is_precise = true;
}

void OperatorBench::add_matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
  add_weight(random_matrix(full_name(name), rows, cols, setting_.weights));
}

void OperatorBench::add_ordered_matrix(const std::string& name,
                                       std::int64_t rows,
                                       std::int64_t cols,
                                       const std::vector<std::int32_t>& order) {
  Weight weight = random_matrix(full_name(name), rows, cols, setting_.weights);
  weight.column_order = std::make_shared<const std::vector<std::int32_t>>(order);
  add_weight(weight);
}

void OperatorBench::add_f32_matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
  add_weight(random_matrix(full_name(name), rows, cols));
}

void OperatorBench::add_vector(const std::string& name,
                               std::int64_t count,
                               float size,
                               float center) {
  add_weight(random_vector(full_name(name), count, size, center));
}

void OperatorBench::add_indices(const std::string& name,
                                std::int64_t cols,
                                const std::vector<std::int32_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  auto buffer = std::make_shared<Buffer>(bytes.size());
  std::ranges::copy(bytes, buffer->data());
  weights_.add({.name = full_name(name),
                .dtype = DType::I32,
                .shape = {static_cast<std::int64_t>(values.size()) / cols, cols},
                .data = buffer->data(),
                .owned = buffer});
}

void OperatorBench::add_linear(const std::string& name, const LinearParams& params) {
  add_matrix(name + ".weight", params.out_features, params.in_features);
  if (params.bias) add_vector(name + ".bias", params.out_features, 0.5F, 0.0F);
  add_child<Linear>(name, Role::Linear, params);
}

void OperatorBench::add_norm(const std::string& name, std::int64_t size) {
  add_vector(name + ".weight", size, 0.3F, 1.0F);
  add_child<Norm>(name, Role::Norm, NormParams{.size = size});
}

void OperatorBench::add_weight(const Weight& weight) {
  weights_.add(subject_ == nullptr ? decoded(weight) : weight);
}

const OperatorInfo& OperatorBench::default_operator(Role role, const Params& params) const {
  const OperatorInfo* found = registry_.default_for(role, device_.type, params);
  if (found == nullptr) fail("no operator of the role ", name(role), " on ", to_string(device_));
  return *found;
}

Kwargs OperatorBench::precise_kwargs(const OperatorInfo& info) {
  static const Kwargs all = {{"precision", "f32"}, {"repack", "false"}, {"dtype", "f32"}};
  Kwargs known;
  for (const auto& [key, value] : all) {
    if (info.find_kwarg(key) != nullptr) known[key] = value;
  }
  has_precise_kwargs_ = has_precise_kwargs_ || !known.empty();
  return setting_.is_precise ? known : Kwargs{};
}

Operator& OperatorBench::add(const std::string& name,
                             const OperatorInfo& info,
                             const Params& params,
                             Kwargs kwargs) {
  const std::string module = full_name(name);
  kwargs.merge(precise_kwargs(info));
  BuildContext context;
  context.module = module;
  context.params = &params;
  context.device = device_;
  context.kwargs = &kwargs;
  context.primitives = &registry_.primitives(device_.type);
  context.child = [&](std::string_view child) -> Child<Operator> {
    const auto found = operators_.find(str(module, ".", child));
    if (found == operators_.end()) return {};
    return {.op = found->second.op.get(), .is_native = found->second.is_native};
  };
  std::unique_ptr<Operator> made = info.make(context);
  made->load(weights_);
  Operator& op = *made;
  operators_[module] = {.op = std::move(made), .is_native = info.is_native};
  return op;
}

DeviceRun::DeviceRun(OperatorBench& bench, const Batch& batch, Phase phase)
    : bench_(bench),
      scope_(bench.devices().at(bench.device()).workspace()),
      pass_{.batch = batch,
            .phase = phase,
            .pool = bench.pool(),
            .workspace = bench.devices().at(bench.device()).workspace(),
            .devices = &bench.devices()} {
  bench.devices().begin_pass(batch);
}

// Allocates one more row, a guard that no operator may write.
TensorView DeviceRun::allocate(DType dtype, std::int64_t cols) {
  const TensorView guarded = pass_.workspace.allocate(dtype, {rows() + 1, cols});
  std::vector<std::byte> bytes(guarded.bytes(), static_cast<std::byte>(kUnwritten));
  bench_.devices().copy(TensorView(bytes.data(), dtype, {rows() + 1, cols}), guarded);
  return guarded.slice(0, rows());
}

TensorView DeviceRun::unwritten(std::int64_t cols, DType dtype) {
  return allocate(dtype, cols);
}

TensorView DeviceRun::random_rows(std::int64_t cols) {
  Random random(static_cast<unsigned>(1000 * rows()) + ++num_inputs_);
  return upload(random.floats(rows() * cols), cols);
}

TensorView DeviceRun::upload(const Floats& values, std::int64_t cols) {
  const TensorView to = allocate(DType::F32, cols);
  Floats copy = values;
  bench_.devices().copy(view(copy, rows(), cols), to);
  return to;
}

TensorView DeviceRun::upload(const std::vector<std::int32_t>& values, std::int64_t cols) {
  const TensorView to = allocate(DType::I32, cols);
  std::vector<std::int32_t> copy = values;
  bench_.devices().copy(TensorView(copy.data(), DType::I32, {rows(), cols}), to);
  return to;
}

ParityResult DeviceRun::download(const std::string& name, TensorView view) {
  const std::int64_t cols = view.cols();
  const TensorView guarded(view.data, view.dtype, {rows() + 1, cols}, view.device);
  std::vector<std::byte> bytes(guarded.bytes());
  bench_.devices().copy(guarded, TensorView(bytes.data(), view.dtype, {rows() + 1, cols}));
  const auto is_unwritten = [](std::byte b) { return b == static_cast<std::byte>(kUnwritten); };
  if (!std::ranges::all_of(std::span(bytes).subspan(view.bytes()), is_unwritten))
    fail(name, ": memory behind the last row was written");
  ParityResult result = {.name = name, .cols = cols, .values = Floats(view.bytes() / 4)};
  if (view.dtype == DType::F32) {
    if (!result.values.empty()) std::memcpy(result.values.data(), bytes.data(), view.bytes());
    return result;
  }
  result.is_exact = true;
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    std::int32_t index = 0;
    std::memcpy(&index, bytes.data() + i * sizeof(index), sizeof(index));
    result.values[i] = static_cast<float>(index);
  }
  return result;
}

}  // namespace graft::ops::testing
