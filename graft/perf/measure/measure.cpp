#include "graft/perf/measure/measure.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graft/base/check.h"
#include "graft/base/system/system.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/registry.h"
#include "graft/packing/packer.h"
#include "graft/perf/limits.h"
#include "graft/tensor/buffer.h"

namespace graft::perf {
namespace {

constexpr std::int64_t kCols = 4096;
constexpr std::int64_t kGemmRows = 64;
// 16 Mi weights: compute-bound with kGemmRows rows.
constexpr std::int64_t kGemmWeightRows = 4096;
// 1 Mi weights: enough for every thread, but the time is the fixed cost of a call.
constexpr std::int64_t kCallWeightRows = 256;
constexpr std::array kTypes = {DType::F32,  DType::F16,    DType::BF16, DType::F8_E4M3, DType::Q8_0,
                               DType::Q6_K, DType::Q5_K,   DType::Q4_K, DType::Q4_0,    DType::Q3_K,
                               DType::Q2_K, DType::IQ4_XS, DType::MXFP4};

// A weight of [num_rows, kCols] in which every row holds the same pseudo-random values.
class SyntheticWeight final : public ops::WeightProvider {
 public:
  SyntheticWeight(DType dtype, std::int64_t num_rows, ThreadPool& pool)
      : dtype_(dtype), num_rows_(num_rows), packer_(&pool) {
    std::vector<float> row(kCols);
    std::uint32_t state = 1;
    for (float& value : row) {
      state = state * 1664525U + 1013904223U;
      value = (static_cast<float>(state >> 8U) / 8388608.0F - 1.0F) * 0.05F;
    }
    const std::size_t row_bytes = bytes_of(dtype, kCols);
    auto buffer = std::make_shared<Buffer>(row_bytes * static_cast<std::size_t>(num_rows));
    kernels::cpu::kernels().codecs[static_cast<std::size_t>(dtype)].encode(
        row.data(), buffer->data(), row.size());
    for (std::int64_t i = 1; i < num_rows; ++i) {
      std::copy_n(buffer->data(), row_bytes,
                  buffer->data() + static_cast<std::size_t>(i) * row_bytes);
    }
    buffer_ = buffer;
  }

  ops::Weight get(std::string_view name) override {
    return {.name = std::string(name),
            .dtype = dtype_,
            .shape = {num_rows_, kCols},
            .data = buffer_->data(),
            .owned = buffer_,
            .scale = {}};
  }
  bool contains(std::string_view) override { return true; }
  packing::Packer* packer() override { return &packer_; }
  std::vector<ops::Weight> experts(std::string_view, std::string_view) override { return {}; }

 private:
  DType dtype_;
  std::int64_t num_rows_;
  packing::Packer packer_;
  std::shared_ptr<const Buffer> buffer_;
};

// Seconds of one forward call on `rows` rows with a [weight_rows, kCols] weight of type `dtype`.
double linear_seconds(const ops::OperatorInfo& info,
                      DType dtype,
                      std::int64_t weight_rows,
                      std::int64_t rows,
                      ThreadPool& pool) {
  const ops::Params params = ops::LinearParams{.in_features = kCols, .out_features = weight_rows};
  const ops::Kwargs kwargs;
  const auto op = info.make(
      {.module = "measured", .params = &params, .device = kCpu, .kwargs = &kwargs, .child = {}});
  auto& linear = dynamic_cast<ops::Linear&>(*op);
  SyntheticWeight weight(dtype, weight_rows, pool);
  linear.load(weight);
  ops::Workspace workspace;
  const ops::Batch batch;
  ops::Pass pass{.batch = batch, .phase = ops::Phase::Decode, .pool = pool, .workspace = workspace};
  const Buffer x(static_cast<std::size_t>(rows * kCols) * sizeof(float));
  const Buffer y(static_cast<std::size_t>(rows * weight_rows) * sizeof(float));
  std::fill_n(reinterpret_cast<float*>(x.data()), rows * kCols, 0.5F);
  return best_seconds([&] {
    linear.forward(TensorView(x.data(), DType::F32, {rows, kCols}),
                   TensorView(y.data(), DType::F32, {rows, weight_rows}), pass);
  });
}

OperatorRate measure_linear(const ops::OperatorInfo& info, DType dtype, ThreadPool& pool) {
  const std::size_t row_bytes = bytes_of(dtype, kCols);
  const auto rows = static_cast<std::int64_t>(uncached_bytes() / row_bytes);
  const double flops = 2.0 * static_cast<double>(kCols * kGemmWeightRows * kGemmRows);
  return {.read_bytes_per_s = static_cast<double>(static_cast<std::size_t>(rows) * row_bytes) /
                              linear_seconds(info, dtype, rows, 1, pool),
          .flops = flops / linear_seconds(info, dtype, kGemmWeightRows, kGemmRows, pool)};
}

}  // namespace

MachineFigures measure_machine(ThreadPool& pool) {
  MachineFigures machine = assumed_machine();
  machine.name = "measured with " + std::to_string(pool.num_threads()) + " threads";
  machine.cpu_source = "this machine's CPU, measured";
  // Installed memory: this_machine() applies the limit of the container that reads the file.
  if (const std::uint64_t installed = total_memory(); installed != 0)
    machine.cpu.dram_bytes = installed;
  machine.cpu.threads = static_cast<int>(pool.num_threads());
  machine.cpu.read_bytes_per_s = measure_read_bandwidth(pool);
  const ops::Registry registry = ops::builtin_operators();
  const ops::Params params = ops::LinearParams{};
  const ops::OperatorInfo* linear =
      registry.default_for(ops::Role::Linear, DeviceType::Cpu, params);
  GRAFT_CHECK(linear != nullptr, "no CPU linear operator is registered");
  for (const DType dtype : kTypes)
    machine.cpu_rates[dtype] = measure_linear(*linear, dtype, pool);
  machine.cpu.flops = machine.cpu_rates[DType::F32].flops;
  machine.cpu.call_seconds = linear_seconds(*linear, DType::Q8_0, kCallWeightRows, 1, pool);
  return machine;
}

}  // namespace graft::perf
