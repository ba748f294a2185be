#include "graft/kernels/cuda/attention/delta_net.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;

std::size_t as_index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

double logistic(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

struct DeltaProblem {
  DeltaNetShape shape;
  std::int64_t rows;
  std::int64_t channels;
  std::int64_t value_size;
  std::int64_t slot_size;
  Floats qkv, z, b, a, taps, decay, dt_bias, norm;

  DeltaProblem(const DeltaNetShape& of, std::int64_t count) : shape(of), rows(count) {
    Random random(5);
    value_size = shape.num_value_heads * shape.value_dim;
    channels = 2 * shape.num_key_heads * shape.key_dim + value_size;
    slot_size = value_size * shape.key_dim + (shape.conv_kernel - 1) * channels;
    qkv = random.floats(rows * channels);
    z = random.floats(rows * value_size);
    b = random.floats(rows * shape.num_value_heads);
    a = random.floats(rows * shape.num_value_heads);
    taps = random.floats(shape.conv_kernel * channels);
    decay = random.floats(shape.num_value_heads);
    for (float& value : decay)
      value = -std::exp(value);
    dt_bias = random.floats(shape.num_value_heads);
    norm = random.floats(shape.value_dim);
  }

  std::int64_t key_head(std::int64_t head) const {
    return shape.tiled_value_heads ? head % shape.num_key_heads
                                   : head / (shape.num_value_heads / shape.num_key_heads);
  }

  // One token in double: replaces the slot and returns the output row.
  std::vector<double> step(std::int64_t row, std::vector<double>& slot) const {
    const std::int64_t before = shape.conv_kernel - 1;
    double* inputs = slot.data() + value_size * shape.key_dim;
    std::vector<double> x(as_index(channels));
    for (std::int64_t c = 0; c < channels; ++c) {
      double sum =
          double{taps[as_index(before * channels + c)]} * double{qkv[as_index(row * channels + c)]};
      for (std::int64_t tap = 0; tap < before; ++tap)
        sum += double{taps[as_index(tap * channels + c)]} * inputs[tap * channels + c];
      x[as_index(c)] = sum * logistic(sum);
      for (std::int64_t tap = 0; tap + 1 < before; ++tap)
        inputs[tap * channels + c] = inputs[(tap + 1) * channels + c];
      if (before > 0)
        inputs[(before - 1) * channels + c] = double{qkv[as_index(row * channels + c)]};
    }
    std::vector<double> out;
    for (std::int64_t head = 0; head < shape.num_value_heads; ++head)
      step_head(row, head, x, slot, out);
    return out;
  }

  void step_head(std::int64_t row,
                 std::int64_t head,
                 const std::vector<double>& x,
                 std::vector<double>& slot,
                 std::vector<double>& out) const {
    const std::int64_t keys = shape.key_dim;
    const std::int64_t values = shape.value_dim;
    const std::int64_t key_size = shape.num_key_heads * keys;
    std::vector<double> q(as_index(keys));
    std::vector<double> k(as_index(keys));
    double q_norm = 1e-6;
    double k_norm = 1e-6;
    for (std::int64_t i = 0; i < keys; ++i) {
      q[as_index(i)] = x[as_index(key_head(head) * keys + i)];
      k[as_index(i)] = x[as_index(key_size + key_head(head) * keys + i)];
      q_norm += q[as_index(i)] * q[as_index(i)];
      k_norm += k[as_index(i)] * k[as_index(i)];
    }
    const auto at = as_index(row * shape.num_value_heads + head);
    const double gate = double{a[at]} + double{dt_bias[as_index(head)]};
    const double factor = std::exp(double{decay[as_index(head)]} * std::log1p(std::exp(gate)));
    const double beta = logistic(b[at]);
    double* state = slot.data() + head * keys * values;
    std::vector<double> y(as_index(values));
    double squares = 0;
    for (std::int64_t c = 0; c < values; ++c) {
      double memory = 0;
      for (std::int64_t i = 0; i < keys; ++i) {
        state[i * values + c] *= factor;
        memory += state[i * values + c] * k[as_index(i)] / std::sqrt(k_norm);
      }
      const double delta = (x[as_index(2 * key_size + head * values + c)] - memory) * beta;
      for (std::int64_t i = 0; i < keys; ++i) {
        state[i * values + c] += k[as_index(i)] / std::sqrt(k_norm) * delta;
        y[as_index(c)] +=
            state[i * values + c] * q[as_index(i)] / std::sqrt(q_norm * static_cast<double>(keys));
      }
      squares += y[as_index(c)] * y[as_index(c)];
    }
    for (std::int64_t c = 0; c < values; ++c) {
      const double gated = double{z[as_index(row * value_size + head * values + c)]};
      out.push_back(y[as_index(c)] /
                    std::sqrt(squares / static_cast<double>(values) + double{shape.eps}) *
                    double{norm[as_index(c)]} * gated * logistic(gated));
    }
  }
};

class DeltaNetKernels : public testing::GpuTest {
 protected:
  struct Result {
    Floats out;
    Floats slots;
  };
  static Result run(const DeltaProblem& problem,
                    const std::vector<DeltaSequence>& sequences,
                    const Floats& slots) {
    const DeviceArray<float> qkv(problem.qkv);
    const DeviceArray<float> z(problem.z);
    const DeviceArray<float> b(problem.b);
    const DeviceArray<float> a(problem.a);
    const DeviceArray<float> taps(problem.taps);
    const DeviceArray<float> decay(problem.decay);
    const DeviceArray<float> dt_bias(problem.dt_bias);
    const DeviceArray<float> norm(problem.norm);
    const DeviceArray<float> filtered(problem.qkv.size());
    const DeviceArray<float> out(problem.z.size());
    const DeviceArray<float> states(slots);
    const DeviceArray<DeltaSequence> batch(sequences);
    std::int64_t max_tokens = 0;
    for (const DeltaSequence& sequence : sequences)
      max_tokens = std::max<std::int64_t>(max_tokens, sequence.num_tokens);
    delta_net(
        problem.shape,
        {.sequences = batch.get(),
         .num_sequences = static_cast<std::int64_t>(sequences.size()),
         .num_rows = problem.rows,
         .max_tokens = max_tokens,
         .slots = {states.get(), problem.slot_size}},
        {.taps = taps.get(), .decay = decay.get(), .dt_bias = dt_bias.get(), .norm = norm.get()},
        {.qkv = {qkv.get(), problem.channels},
         .z = {z.get(), problem.value_size},
         .b = {b.get(), problem.shape.num_value_heads},
         .a = {a.get(), problem.shape.num_value_heads},
         .filtered = {filtered.get(), problem.channels},
         .out = {out.get(), problem.value_size}},
        nullptr);
    return {.out = out.download(), .slots = states.download()};
  }

  // A prompt with two checkpoints, a later chunk, a decode token, a short chunk and padding.
  static void expect_matches(const DeltaNetShape& shape) {
    const DeltaProblem problem(shape, 60);
    const std::vector<DeltaSequence> sequences = {
        {.first_row = 0,
         .num_tokens = 40,
         .is_first = 1,
         .slot = 2,
         .checkpoint_tokens = {1, 33},
         .checkpoint_slots = {5, 6}},
        {.first_row = 40, .num_tokens = 16, .slot = 0},
        {.first_row = 56,
         .num_tokens = 1,
         .slot = 1,
         .checkpoint_tokens = {1, 0},
         .checkpoint_slots = {7, -1}},
        {.first_row = 57, .num_tokens = 2, .slot = 3},
        {.first_row = 59, .num_tokens = 1, .is_first = 1, .slot = -1}};
    const Floats slots = Random(9).floats(8 * problem.slot_size);
    const Result got = run(problem, sequences, slots);

    std::vector<double> out;
    std::vector<double> want_slots(slots.begin(), slots.end());
    const auto store = [&](std::int32_t slot, const std::vector<double>& values) {
      std::copy(values.begin(), values.end(), want_slots.begin() + slot * problem.slot_size);
    };
    for (const DeltaSequence& sequence : sequences) {
      if (sequence.slot < 0) {
        out.insert(out.end(), as_index(problem.value_size), 0.0);
        continue;
      }
      std::vector<double> state(as_index(problem.slot_size));
      if (sequence.is_first == 0) {
        std::copy_n(slots.begin() + sequence.slot * problem.slot_size, problem.slot_size,
                    state.begin());
      }
      for (int token = 0; token < sequence.num_tokens; ++token) {
        const std::vector<double> row = problem.step(sequence.first_row + token, state);
        out.insert(out.end(), row.begin(), row.end());
        for (int i = 0; i < kStateCheckpoints; ++i) {
          if (sequence.checkpoint_slots[i] >= 0 && sequence.checkpoint_tokens[i] == token + 1)
            store(sequence.checkpoint_slots[i], state);
        }
      }
      store(sequence.slot, state);
    }
    EXPECT_LT(testing::relative_error(got.out, out), 1e-4);
    EXPECT_LT(testing::relative_error(got.slots, want_slots), 1e-4);
  }
};

TEST_F(DeltaNetKernels, MatchThePlainRecurrence) {
  expect_matches({.num_key_heads = 2,
                  .num_value_heads = 4,
                  .key_dim = 128,
                  .value_dim = 128,
                  .conv_kernel = 4,
                  .eps = 1e-6F});
}

TEST_F(DeltaNetKernels, MatchWithOddSizes) {
  expect_matches({.num_key_heads = 2,
                  .num_value_heads = 6,
                  .key_dim = 20,
                  .value_dim = 37,
                  .conv_kernel = 3,
                  .tiled_value_heads = true,
                  .eps = 1e-6F});
  expect_matches({.num_key_heads = 1,
                  .num_value_heads = 1,
                  .key_dim = 200,
                  .value_dim = 33,
                  .conv_kernel = 1,
                  .eps = 1e-5F});
}

}  // namespace
}  // namespace graft::kernels::cuda
