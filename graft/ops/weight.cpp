#include "graft/ops/weight.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/kernels/cpu/table.h"

namespace graft::ops {

std::int64_t Weight::rows() const {
  std::int64_t product = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i)
    product *= shape[i];
  return product;
}

std::int64_t Weight::cols() const {
  return shape.empty() ? 1 : shape.back();
}

void Weight::decode_rows(std::int64_t begin, std::int64_t count, float* out) const {
  GRAFT_DCHECK(begin >= 0 && count >= 0 && begin + count <= rows(), name, ": rows ", begin, " + ",
               count, " of ", rows());
  const quant::Codec& codec = kernels::cpu::kernels().codecs[static_cast<std::size_t>(dtype)];
  codec.decode(data + static_cast<std::size_t>(begin) * row_bytes(), out,
               static_cast<std::size_t>(count * cols()));
  if (scale) scale->layout.apply(out, begin, count, scale->values);
  if (!column_order) return;
  std::vector<float> row(static_cast<std::size_t>(cols()));
  for (std::int64_t i = 0; i < count; ++i, out += cols()) {
    std::copy_n(out, cols(), row.begin());
    for (std::size_t col = 0; col < row.size(); ++col)
      out[(*column_order)[col]] = row[col];
  }
}

std::vector<float> Weight::decode() const {
  std::vector<float> values(static_cast<std::size_t>(rows() * cols()));
  decode_rows(0, rows(), values.data());
  return values;
}

void Weight::expect_shape(std::int64_t num_rows, std::int64_t num_cols) const {
  expect_linear(num_rows, num_cols);
  if (column_order) {
    fail(name, ": columns in the order of their groups (GPTQ's desc_act) are supported in linear ",
         "layers and experts only");
  }
}

void Weight::expect_linear(std::int64_t num_rows, std::int64_t num_cols) const {
  if (rows() != num_rows || cols() != num_cols) {
    fail(name, ": shape is [", rows(), ", ", cols(), "], expected [", num_rows, ", ", num_cols,
         "]");
  }
  if (cols() % info(dtype).block_elems != 0) {
    fail(name, ": rows of ", cols(), " values are not a multiple of the block of ",
         info(dtype).block_elems, " values of ", graft::name(dtype));
  }
}

std::byte* allocate_rows(Weight& weight) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t bytes = static_cast<std::size_t>(weight.rows()) * weight.row_bytes();
  auto memory = std::make_shared<Buffer>(bytes + 2 * page);
  const std::size_t offset = page - reinterpret_cast<std::uintptr_t>(memory->data()) % page;
  std::byte* rows = memory->data() + offset;
  weight.data = rows;
  weight.owned = std::move(memory);
  return rows;
}

std::vector<float> load_vector(WeightProvider& weights,
                               const std::string& name,
                               std::int64_t size) {
  const Weight weight = weights.get(name);
  weight.expect_shape(1, size);
  return weight.decode();
}

}  // namespace graft::ops
