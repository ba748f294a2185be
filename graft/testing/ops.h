// Helpers of the operator tests: weights in memory, a tree of operators built by name, batches with
// any schedule, and a double-precision reference.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/base/parallel.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/registry.h"
#include "graft/packing/packer.h"
#include "graft/testing/uniform_float.h"

namespace graft::ops::testing {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

class Random {
 public:
  explicit Random(unsigned seed = 1) : engine_(seed) {}

  Floats floats(std::int64_t count, float size = 1.0F, float center = 0.0F) {
    Floats values(static_cast<std::size_t>(count));
    for (float& value : values)
      value = uniform_float(engine_, center - size, center + size);
    return values;
  }
  std::int64_t below(std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>(0, end - 1)(engine_);
  }
  std::mt19937& engine() { return engine_; }

 private:
  std::mt19937 engine_;
};

inline TensorView view(Floats& values, std::int64_t rows, std::int64_t cols) {
  GRAFT_CHECK(static_cast<std::int64_t>(values.size()) == rows * cols, values.size());
  return {values.data(), DType::F32, {rows, cols}};
}

class TestWeights final : public WeightProvider {
 public:
  // Quantizes the values and returns them dequantized.
  Floats add(const std::string& name,
             std::vector<std::int64_t> shape,
             const Floats& values,
             DType dtype = DType::F32) {
    auto buffer =
        std::make_shared<Buffer>(bytes_of(dtype, static_cast<std::int64_t>(values.size())));
    kernels::cpu::kernels().codecs[static_cast<std::size_t>(dtype)].encode(
        values.data(), buffer->data(), values.size());
    Weight weight = {.name = name, .dtype = dtype, .shape = std::move(shape)};
    weight.data = buffer->data();
    weight.owned = std::move(buffer);
    weights_[name] = weight;
    return weight.decode();
  }
  void add(Weight weight) { weights_[weight.name] = std::move(weight); }

  Weight get(std::string_view name) override {
    GRAFT_CHECK(contains(name), name);
    return weights_.find(name)->second;
  }
  bool contains(std::string_view name) override { return weights_.find(name) != weights_.end(); }
  std::vector<Weight> experts(std::string_view experts, std::string_view projection) override {
    std::vector<Weight> found;
    while (true) {
      const std::string name = str(experts, ".", found.size(), ".", projection, ".weight");
      if (!contains(name)) return found;
      found.push_back(get(name));
    }
  }
  packing::Packer* packer() override { return &packer_; }
  void pack_on(ThreadPool& pool) { packer_ = packing::Packer(&pool); }

 private:
  packing::Packer packer_{nullptr};
  std::map<std::string, Weight, std::less<>> weights_;
};

// Operators by module name. Children first, as a plan builds them.
class TestModel {
 public:
  bool children_are_native = true;  // of modules added later

  template <class Op>
  Op& add(std::string_view op,
          const std::string& module,
          const Params& params,
          const Kwargs& kwargs = {}) {
    const OperatorInfo* info = registry_.find(op);
    GRAFT_CHECK(info != nullptr, op);
    BuildContext context;
    context.module = module;
    context.params = &params;
    context.kwargs = &kwargs;
    context.primitives = &registry_.primitives(info->device);
    context.child = [&](std::string_view child) -> Child<Operator> {
      const auto found = operators_.find(str(module, ".", child));
      if (found == operators_.end()) return {};
      return {.op = found->second.get(), .is_native = children_are_native};
    };
    auto made = info->make(context);
    made->load(weights);
    auto* typed = dynamic_cast<Op*>(made.get());
    GRAFT_CHECK(typed != nullptr, op);
    operators_[module] = std::move(made);
    return *typed;
  }
  // Adds a linear with random weights, which are returned.
  Floats add_linear(const std::string& module, std::int64_t out, std::int64_t in, Random& random) {
    const float size = 1.5F / std::sqrt(static_cast<float>(in));
    Floats values = weights.add(module + ".weight", {out, in}, random.floats(out * in, size));
    add<Linear>("cpu.linear", module, LinearParams{.in_features = in, .out_features = out});
    return values;
  }
  Floats add_norm(const std::string& module, std::int64_t size, Random& random) {
    Floats values = weights.add(module + ".weight", {size}, random.floats(size, 0.3F, 1.0F));
    add<Norm>("cpu.rms_norm", module, NormParams{.size = size, .eps = 1e-6});
    return values;
  }

  TestWeights weights;

 private:
  Registry registry_ = builtin_operators();
  std::map<std::string, std::unique_ptr<Operator>> operators_;
};

// The steps of a run; each step adds tokens to some sequences.
struct Chunk {
  std::int64_t sequence = 0;
  std::int64_t num_tokens = 0;
};
using Schedule = std::vector<std::vector<Chunk>>;

using RowFunction = std::function<void(TensorView x, TensorView y, Pass& pass)>;

// Runs sequences through a function of rows with the given schedule and number of threads. The
// input of a token depends on its sequence and position alone, and so must its result.
class ScheduleRunner {
 public:
  ScheduleRunner(std::int64_t in, std::int64_t out, std::int64_t block_tokens = 4)
      : in_(in), out_(out), block_tokens_(block_tokens), blocks_(kNumBlocks) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
    std::ranges::shuffle(blocks_, Random(7).engine());
  }

  static constexpr std::int64_t kNumBlocks = 256;
  static constexpr std::int64_t kBlocksPerSequence = 64;

  Floats input(std::int64_t sequence, std::int64_t position) const {
    return Random(static_cast<unsigned>(sequence * 1000 + position + 1)).floats(in_);
  }

  // The rows of every sequence, in order of position.
  std::map<std::int64_t, Floats> run(const Schedule& schedule,
                                     std::size_t num_threads,
                                     const RowFunction& function,
                                     Phase phase = Phase::Prefill) {
    ThreadPool pool(num_threads);
    std::map<std::int64_t, Floats> results;
    std::map<std::int64_t, std::int64_t> lengths;
    for (const std::vector<Chunk>& step : schedule) {
      Batch batch;
      Floats x;
      for (const Chunk& chunk : step)
        append(chunk, lengths[chunk.sequence], batch, x);
      Floats y(static_cast<std::size_t>(batch.num_tokens() * out_));
      Pass pass = {.batch = batch, .phase = phase, .pool = pool, .workspace = workspace};
      function(view(x, batch.num_tokens(), in_), view(y, batch.num_tokens(), out_), pass);
      auto from = y.begin();
      for (const Chunk& chunk : step) {
        Floats& rows = results[chunk.sequence];
        rows.insert(rows.end(), from, from + chunk.num_tokens * out_);
        from += chunk.num_tokens * out_;
      }
    }
    return results;
  }

  Workspace workspace;

 private:
  void append(const Chunk& chunk, std::int64_t& length, Batch& batch, Floats& x) const {
    SequenceSlice slice = {.first_row = batch.num_tokens(),
                           .num_tokens = chunk.num_tokens,
                           .context_len = length + chunk.num_tokens,
                           .block_table = {}};
    for (; length < slice.context_len; ++length) {
      batch.token_ids.push_back(static_cast<std::int32_t>(7 * length + chunk.sequence) % 50);
      batch.positions.push_back(static_cast<std::int32_t>(length));
      const Floats row = input(chunk.sequence, length);
      x.insert(x.end(), row.begin(), row.end());
    }
    const auto first = blocks_.begin() + chunk.sequence * kBlocksPerSequence;
    slice.block_table.assign(first, first + (length + block_tokens_ - 1) / block_tokens_);
    batch.sequences.push_back(std::move(slice));
  }

  std::int64_t in_;
  std::int64_t out_;
  std::int64_t block_tokens_;
  std::vector<std::int32_t> blocks_;  // shuffled
};

// Results of a run, by sequence.
using Results = std::map<std::int64_t, Floats>;

// Compares bits: 0 differs from -0.
inline bool same_bits(const Results& a, const Results& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.size() == y.second.size() &&
           std::memcmp(x.second.data(), y.second.data(), x.second.size() * sizeof(float)) == 0;
  });
}

// Schedules of three sequences of 150, 9 and 70 tokens: one batch, one by one, single tokens,
// chunks.
inline std::vector<Schedule> schedules() {
  Schedule alone;
  for (const auto& [sequence, length] : {std::pair{0, 150}, {1, 9}, {2, 70}})
    alone.push_back({{sequence, length}});
  Schedule one_by_one;
  for (int i = 0; i < 150; ++i) {
    one_by_one.push_back({{0, 1}});
    if (i < 9) one_by_one.back().push_back({1, 1});
    if (i >= 80) one_by_one.back().insert(one_by_one.back().begin(), {2, 1});
  }
  const Schedule chunks = {
      {{2, 33}, {0, 1}}, {{0, 63}, {1, 5}}, {{1, 1}, {2, 37}, {0, 70}}, {{1, 3}, {0, 16}}};
  return {{{{0, 150}, {1, 9}, {2, 70}}}, alone, one_by_one, chunks};
}

// rows[out, in] times x
inline Doubles times(const Floats& rows, const Doubles& x) {
  Doubles y(rows.size() / x.size());
  for (std::size_t r = 0; r < y.size(); ++r) {
    for (std::size_t c = 0; c < x.size(); ++c)
      y[r] += static_cast<double>(rows[r * x.size() + c]) * x[c];
  }
  return y;
}

inline Doubles norm(const Floats& weight, Doubles x) {
  double squares = 0;
  for (const double value : x)
    squares += value * value;
  const double rms = std::sqrt(squares / static_cast<double>(x.size()) + 1e-6);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = x[i] / rms * weight[i];
  return x;
}

inline double silu(double x) {
  return x / (1.0 + std::exp(-x));
}

inline Doubles softmax(Doubles x) {
  const double max = std::ranges::max(x);
  double sum = 0;
  for (double& value : x)
    sum += value = std::exp(value - max);
  for (double& value : x)
    value /= sum;
  return x;
}

inline Doubles gated_mlp(const Floats& gate,
                         const Floats& up,
                         const Floats& down,
                         const Doubles& x) {
  Doubles inner = times(gate, x);
  const Doubles up_x = times(up, x);
  for (std::size_t i = 0; i < inner.size(); ++i)
    inner[i] = silu(inner[i]) * up_x[i];
  return times(down, inner);
}

inline Doubles widen(const Floats& values) {
  return {values.begin(), values.end()};
}

// Max difference, relative to the max value.
template <class A, class B>
double relative_error(const A& got, const B& want) {
  GRAFT_CHECK(got.size() == want.size(), got.size(), " values, wanted ", want.size());
  double largest = 1e-30;
  double error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
    error = std::max(error, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
    if (std::isnan(got[i])) return 1e30;
  }
  return error / largest;
}

}  // namespace graft::ops::testing
