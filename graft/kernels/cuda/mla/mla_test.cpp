#include "graft/kernels/cuda/mla/mla.h"

#include <vector>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;

class MlaKernels : public testing::GpuTest {};

struct Reference {
  Floats absorbed;
  Floats projected;
};

Reference reference(const MlaShape& s,
                    const Floats& kv_b,
                    const Floats& queries,
                    const Floats& mixed,
                    std::int64_t rows) {
  Reference want;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t head = 0; head < s.num_heads; ++head) {
      const float* matrix = kv_b.data() + head * (s.nope + s.value) * s.rank;
      const float* q = queries.data() + (row * s.num_heads + head) * (s.nope + s.rope);
      const float* latent = mixed.data() + (row * s.num_heads + head) * s.rank;
      for (std::int64_t i = 0; i < s.rank; ++i) {
        double sum = 0;
        for (std::int64_t n = 0; n < s.nope; ++n)
          sum += static_cast<double>(q[n]) * matrix[n * s.rank + i];
        want.absorbed.push_back(static_cast<float>(sum));
      }
      want.absorbed.insert(want.absorbed.end(), q + s.nope, q + s.nope + s.rope);
      for (std::int64_t v = 0; v < s.value; ++v) {
        double sum = 0;
        for (std::int64_t i = 0; i < s.rank; ++i)
          sum += static_cast<double>(latent[i]) * matrix[(s.nope + v) * s.rank + i];
        want.projected.push_back(static_cast<float>(sum));
      }
    }
  }
  return want;
}

TEST_F(MlaKernels, AbsorbQueriesAndProjectValues) {
  for (const MlaShape& shape : {MlaShape{3, 40, 16, 8, 24}, MlaShape{2, 33, 7, 5, 9}}) {
    for (const std::int64_t rows : {1, 8, 70}) {
      for (const DType dtype : {DType::F32, DType::F16}) {
        Random random(31);
        const Floats kv_b =
            random.floats(shape.num_heads * (shape.nope + shape.value) * shape.rank);
        const Floats queries = random.floats(rows * shape.num_heads * (shape.nope + shape.rope));
        const Floats mixed = random.floats(rows * shape.num_heads * shape.rank);
        const Reference want = reference(shape, kv_b, queries, mixed, rows);
        const DeviceArray<float> kv_b_data(kv_b);
        const DeviceArray<float> query_data(queries);
        const DeviceArray<float> mixed_data(mixed);
        const DeviceArray<float> keys(
            static_cast<std::size_t>(shape.num_heads * shape.rank * shape.nope));
        const DeviceArray<float> values(
            static_cast<std::size_t>(shape.num_heads * shape.rank * shape.value));
        const MlaWeights weights = {.dtype = dtype, .keys = keys.get(), .values = values.get()};
        split_kv_b(shape, kv_b_data.get(), weights, nullptr);
        const DeviceArray<float> absorbed(want.absorbed.size());
        const DeviceArray<float> projected(want.projected.size());
        const DeviceArray<std::byte> absorb_scratch(absorb_queries_bytes(shape, weights, rows));
        absorb_queries(shape, weights, query_data.get(), absorbed.get(), rows, absorb_scratch.get(),
                       nullptr);
        const DeviceArray<std::byte> project_scratch(project_values_bytes(shape, weights, rows));
        project_values(shape, weights, mixed_data.get(),
                       {projected.get(), shape.num_heads * shape.value}, rows,
                       project_scratch.get(), nullptr);
        const double tolerance = dtype == DType::F32 ? 1e-6 : 1e-3;
        EXPECT_LT(relative_error(absorbed.download(), want.absorbed), tolerance);
        EXPECT_LT(relative_error(projected.download(), want.projected), tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace graft::kernels::cuda
