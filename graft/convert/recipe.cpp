#include "graft/convert/recipe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include "graft/base/error.h"
#include "graft/convert/merge_lora.h"
#include "graft/kernels/cpu/table.h"
#include "graft/models/weights/expert_layout.h"

namespace graft::convert {
namespace {

void decode(DType dtype, const std::byte* data, std::span<float> out) {
  kernels::cpu::kernels().codecs[static_cast<std::size_t>(dtype)].decode(data, out.data(),
                                                                         out.size());
}

using formats::TensorInfo;
using formats::TensorTransform;

// Rows of packed integers, columns in order.
void read_integers(const TensorInfo& weight, std::int64_t begin, std::int64_t count, float* out) {
  const auto cols = static_cast<std::size_t>(weight.row_elems());
  const auto num_elems = static_cast<std::size_t>(count) * cols;
  std::vector<std::byte> rows(bytes_of(weight.dtype, count * weight.row_elems()));
  weight.row_source->read(begin, count, rows.data());
  decode(weight.dtype, rows.data(), {out, num_elems});
  const auto order = weight.row_source->column_order();
  if (!order) return;
  const std::vector<float> sorted(out, out + num_elems);
  for (std::size_t i = 0; i < num_elems; ++i)
    out[i / cols * cols + static_cast<std::size_t>((*order)[i % cols])] = sorted[i];
}

}  // namespace

std::int64_t Recipe::num_rows() const {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i)
    rows *= shape[i];
  return rows;
}

bool Recipe::is_copy() const {
  return transform == TensorTransform::Same && sources.size() == 1 && sources[0].scale == nullptr &&
         sources[0].weight->dtype == dtype && !sources[0].weight->row_source &&
         sources[0].lora == nullptr;
}

DType Recipe::source_dtype() const {
  return formats::is_mxfp4(transform) ? DType::MXFP4 : sources.front().weight->dtype;
}

bool Recipe::is_gathered() const {
  return (models::is_expert_layout(transform) || keeps_integers(*this)) && source_dtype() == dtype;
}

bool keeps_integers(const Recipe& recipe) {
  const bool moves_rows =
      recipe.transform != TensorTransform::KvBKey && recipe.transform != TensorTransform::PlusOne;
  return moves_rows && !recipe.sources.empty() &&
         std::ranges::all_of(recipe.sources, [&](const RecipeSource& from) {
           return from.weight->row_source && from.lora == nullptr &&
                  from.weight->dtype == recipe.sources[0].weight->dtype &&
                  from.weight->row_source->column_order() == nullptr;
         });
}

RowReader::RowReader(const Recipe& recipe, const std::vector<std::int64_t>& block_size)
    : recipe_(recipe) {
  scales_.resize(recipe.sources.size());
  if (formats::is_mxfp4(recipe.transform)) return;
  for (std::size_t i = 0; i < recipe.sources.size(); ++i) {
    const RecipeSource& from = recipe.sources[i];
    if (from.scale == nullptr) continue;
    Scales& scales = scales_[i];
    if (formats::is_transposed(recipe.transform)) {
      scales.layout = quant::ScaleLayout::fit(
          recipe.shape, std::array{recipe.shape[0], recipe.shape[1], std::int64_t{1}});
      for (std::int64_t expert = 0; expert < recipe.shape[0]; ++expert) {
        const std::vector<float> rows = models::expert_scales(
            {.tensor = from.weight, .scales = from.scale, .transform = recipe.transform}, expert);
        scales.values.insert(scales.values.end(), rows.begin(), rows.end());
      }
      continue;
    }
    try {
      scales.layout = block_size.size() == 2
                          ? quant::ScaleLayout::fit(from.weight->shape, from.scale->shape,
                                                    block_size[0], block_size[1])
                          : quant::ScaleLayout::fit(from.weight->shape, from.scale->shape);
    } catch (const Error& error) {
      fail(from.scale->name, ": ", error.what());
    }
    scales.values.resize(static_cast<std::size_t>(from.scale->num_elems()));
    quant::decode_scales(from.scale->dtype, from.scale->data.data(), scales.values);
  }
}

void RowReader::read_ids(std::int64_t begin, std::int64_t count, std::byte* out) const {
  const TensorInfo& weight = *recipe_.sources[0].weight;
  const std::int64_t row_elems = recipe_.row_elems();
  const std::byte* from =
      weight.data.data() + static_cast<std::size_t>(begin * row_elems) * sizeof(std::int64_t);
  for (std::int64_t i = 0; i < count * row_elems; ++i) {
    std::int64_t id = 0;
    std::memcpy(&id, from + static_cast<std::size_t>(i) * sizeof(id), sizeof(id));
    if (id < INT32_MIN || id > INT32_MAX) fail(weight.name, ": ", id, " does not fit into int32");
    const auto narrow = static_cast<std::int32_t>(id);
    std::memcpy(out + static_cast<std::size_t>(i) * sizeof(narrow), &narrow, sizeof(narrow));
  }
}

void RowReader::read(std::int64_t begin, std::int64_t count, float* out) const {
  const std::int64_t row_elems = recipe_.row_elems();
  if (!recipe_.values.empty()) {
    std::copy_n(recipe_.values.data() + begin * row_elems, count * row_elems, out);
    return;
  }
  if (models::is_expert_layout(recipe_.transform)) {
    std::vector<std::byte> rows(bytes_of(recipe_.source_dtype(), count * row_elems));
    gather_experts(begin, count, rows.data());
    decode(recipe_.source_dtype(), rows.data(), {out, static_cast<std::size_t>(count * row_elems)});
    const Scales& scales = scales_[0];
    if (!scales.values.empty()) scales.layout.apply(out, begin, count, scales.values);
    return;
  }
  if (recipe_.transform == TensorTransform::KvBKey) {
    read_key_rows(begin, count, out);
    return;
  }
  if (recipe_.transform == TensorTransform::RopePairs && recipe_.shape.size() == 1) {
    read_bias(out);
    return;
  }
  const bool is_neg_exp = recipe_.transform == TensorTransform::NegExp ||
                          recipe_.transform == TensorTransform::TiledNegExp;
  if (is_neg_exp || (recipe_.transform == TensorTransform::TiledHeads && recipe_.shape.size() == 1))
    return read_head_values(out);
  if (recipe_.transform == TensorTransform::TiledColumns)
    return read_tiled_columns(begin, count, out);
  if (recipe_.transform == TensorTransform::PlusOne) {
    read_source(0, begin, count, out);
    for (std::int64_t i = 0; i < count * row_elems; ++i)
      out[i] += 1.0F;
    return;
  }
  for_each_run(begin, count, [&](const SourceRow& from, std::int64_t run, std::int64_t to) {
    read_source(from.source, from.row, run, out + to * row_elems);
  });
}

template <class Visit>
void RowReader::for_each_run(std::int64_t begin, std::int64_t count, const Visit& visit) const {
  for (std::int64_t row = begin; row < begin + count;) {
    const SourceRow first = source_row(row);
    std::int64_t run = 1;
    while (row + run < begin + count) {
      const SourceRow next = source_row(row + run);
      if (next.source != first.source || next.row != first.row + run) break;
      ++run;
    }
    visit(first, run, row - begin);
    row += run;
  }
}

void RowReader::gather(std::int64_t begin, std::int64_t count, std::byte* out) const {
  if (models::is_expert_layout(recipe_.transform)) return gather_experts(begin, count, out);
  const std::size_t row_bytes = bytes_of(recipe_.source_dtype(), recipe_.row_elems());
  for_each_run(begin, count, [&](const SourceRow& from, std::int64_t run, std::int64_t to) {
    recipe_.sources[from.source].weight->row_source->read(
        from.row, run, out + static_cast<std::size_t>(to) * row_bytes);
  });
}

void RowReader::gather_experts(std::int64_t begin, std::int64_t count, std::byte* out) const {
  const models::StoredExperts stored = {.tensor = recipe_.sources[0].weight,
                                        .scales = recipe_.sources[0].scale,
                                        .transform = recipe_.transform};
  // A bias is one row per expert.
  const std::int64_t expert_rows = recipe_.shape.size() == 3 ? recipe_.shape[1] : 1;
  const std::size_t row_bytes = bytes_of(recipe_.source_dtype(), recipe_.row_elems());
  for (std::int64_t row = begin; row < begin + count;) {
    const std::int64_t first = row % expert_rows;
    const std::int64_t rows = std::min(expert_rows - first, begin + count - row);
    models::gather_expert_rows(stored, row / expert_rows, first, rows, out);
    out += static_cast<std::size_t>(rows) * row_bytes;
    row += rows;
  }
}

RowReader::SourceRow RowReader::source_row(std::int64_t row) const {
  // The biases of experts are [experts, values].
  const bool is_bias = recipe_.transform == TensorTransform::Expert && recipe_.shape.size() == 2;
  const std::int64_t rows_per_slice = recipe_.shape.size() == 3 ? recipe_.shape[1]
                                      : is_bias                 ? 1
                                                                : recipe_.num_rows();
  const std::int64_t slice = row / rows_per_slice;
  const std::int64_t in_slice = row % rows_per_slice;
  switch (recipe_.transform) {
    case TensorTransform::Expert:
      return {static_cast<std::size_t>(slice), in_slice};
    case TensorTransform::FirstHalf:
    case TensorTransform::SecondHalf:
      return {0, formats::fused_row(recipe_.transform, row, rows_per_slice)};
    case TensorTransform::KvBValue:
      return {0, recipe_.kv_b.value_row(slice) + in_slice};
    case TensorTransform::RopePairs:
      return {0, formats::rope_halves_row(row, recipe_.num_rows() / recipe_.num_heads)};
    default:
      break;
  }
  const bool is_by_head =
      formats::is_split_by_key_head(recipe_.transform) || formats::is_tiled(recipe_.transform);
  return {0, is_by_head ? recipe_.heads.source_row(recipe_.transform, row) : row};
}

// A_log or dt_bias: a single row with a value per head.
void RowReader::read_head_values(float* out) const {
  std::vector<float> values(static_cast<std::size_t>(recipe_.row_elems()));
  read_source(0, 0, 1, values.data());
  for (std::int64_t i = 0; i < recipe_.row_elems(); ++i) {
    const float value =
        values[static_cast<std::size_t>(recipe_.heads.source_row(recipe_.transform, i))];
    out[i] = recipe_.transform == TensorTransform::TiledHeads ? value : -std::exp(value);
  }
}

// out_proj, whose columns are the values of the heads.
void RowReader::read_tiled_columns(std::int64_t begin, std::int64_t count, float* out) const {
  const std::int64_t cols = recipe_.row_elems();
  std::vector<float> row(static_cast<std::size_t>(cols));
  for (std::int64_t i = 0; i < count; ++i, out += cols) {
    read_source(0, begin + i, 1, row.data());
    for (std::int64_t col = 0; col < cols; ++col)
      out[col] = row[static_cast<std::size_t>(recipe_.heads.source_row(recipe_.transform, col))];
  }
}

void RowReader::read_source(std::size_t source,
                            std::int64_t begin,
                            std::int64_t count,
                            float* out) const {
  const RecipeSource& from = recipe_.sources[source];
  const TensorInfo& weight = *from.weight;
  const auto add_lora = [&] {
    if (from.lora != nullptr) from.lora->add(begin, count, out);
  };
  if (weight.row_source) {
    read_integers(weight, begin, count, out);
    return add_lora();
  }
  const std::int64_t row_elems = weight.row_elems();
  const std::size_t row_bytes = bytes_of(weight.dtype, row_elems);
  const std::byte* data = weight.data.data() + static_cast<std::size_t>(begin) * row_bytes;
  const auto num_elems = static_cast<std::size_t>(count * row_elems);
  decode(weight.dtype, data, {out, num_elems});
  if (from.scale != nullptr) {
    const Scales& scales = scales_[source];
    scales.layout.apply(out, begin, count, scales.values);
  }
  add_lora();
}

// A bias is a single row whose elements are permuted like the rows of its weight.
void RowReader::read_bias(float* out) const {
  const std::int64_t num_elems = recipe_.row_elems();
  const std::int64_t head_dim = num_elems / recipe_.num_heads;
  std::vector<float> values(static_cast<std::size_t>(num_elems));
  read_source(0, 0, 1, values.data());
  for (std::int64_t i = 0; i < num_elems; ++i)
    out[i] = values[static_cast<std::size_t>(formats::rope_halves_row(i, head_dim))];
}

// Transposes each head's key rows, [qk_nope, kv_lora_rank] in the source: output row (head, r)
// holds element r of each of them.
void RowReader::read_key_rows(std::int64_t begin, std::int64_t count, float* out) const {
  const formats::KvBShape& kv_b = recipe_.kv_b;
  const auto head_elems = static_cast<std::size_t>(kv_b.key_dim * kv_b.rank);
  std::vector<float> key_rows(head_elems);
  std::vector<float> transposed(head_elems);
  for (std::int64_t row = begin; row < begin + count;) {
    const std::int64_t head = row / kv_b.rank;
    const std::int64_t first = row % kv_b.rank;
    const std::int64_t rows = std::min(kv_b.rank - first, begin + count - row);
    read_source(0, kv_b.key_row(head), kv_b.key_dim, key_rows.data());
    formats::transpose(key_rows.data(), kv_b.key_dim, kv_b.rank, transposed.data());
    std::copy_n(transposed.data() + first * kv_b.key_dim, rows * kv_b.key_dim,
                out + (row - begin) * kv_b.key_dim);
    row += rows;
  }
}

}  // namespace graft::convert
