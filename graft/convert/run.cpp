#include <algorithm>
#include <utility>

#include "graft/base/check.h"
#include "graft/convert/job.h"
#include "graft/formats/gguf/gguf_writer.h"
#include "graft/kernels/cpu/table.h"

namespace graft::convert {
namespace {

// Elements encoded per work item: large enough to make scheduling free, small enough to spread a
// small tensor over several threads.
constexpr std::int64_t kItemElems = std::int64_t{1} << 18;

std::int64_t rows_per_item(const Recipe& recipe) {
  return std::clamp<std::int64_t>(kItemElems / std::max<std::int64_t>(recipe.row_elems(), 1), 1,
                                  std::max<std::int64_t>(recipe.num_rows(), 1));
}

class TensorWriter {
 public:
  TensorWriter(const Job& job, formats::GgufWriter& out, ThreadPool& pool, Progress& progress)
      : job_(job), out_(out), pool_(pool), progress_(progress) {}

  void write(const Recipe& recipe) {
    if (recipe.is_copy()) {
      copy(recipe);
    } else {
      encode(recipe);
    }
    for (const RecipeSource& source : recipe.sources)
      job_.source->release(*source.weight);
  }

 private:
  void copy(const Recipe& recipe) {
    constexpr std::size_t kChunkBytes = std::size_t{16} << 20U;
    const std::span<const std::byte> data = recipe.sources[0].weight->data;
    for (std::size_t at = 0; at < data.size(); at += kChunkBytes) {
      const std::size_t size = std::min(kChunkBytes, data.size() - at);
      out_.append(data.subspan(at, size));
      progress_.advance(size, recipe.name);
    }
  }

  // In rounds of four items per thread: encoded in parallel, then written in order.
  void encode(const Recipe& recipe) {
    const RowReader reader(recipe, job_.source->config().quantization.weight_block_size);
    const std::int64_t item_rows = rows_per_item(recipe);
    const std::int64_t round_rows = item_rows * static_cast<std::int64_t>(pool_.num_threads()) * 4;
    const std::size_t row_bytes = bytes_of(recipe.dtype, recipe.row_elems());
    std::uint64_t input_bytes = 0;
    for (const RecipeSource& source : recipe.sources)
      input_bytes += source.weight->data.size();
    const std::int64_t num_rows = recipe.num_rows();
    for (std::int64_t row = 0; row < num_rows; row += round_rows) {
      const std::int64_t count = std::min(round_rows, num_rows - row);
      encoded_.resize(static_cast<std::size_t>(count) * row_bytes);
      const auto num_items = static_cast<std::size_t>((count + item_rows - 1) / item_rows);
      pool_.parallel_for(num_items, [&](std::size_t item) {
        const std::int64_t first = static_cast<std::int64_t>(item) * item_rows;
        const std::int64_t rows = std::min(item_rows, count - first);
        encode_rows(reader, recipe, row + first, rows,
                    encoded_.data() + static_cast<std::size_t>(first) * row_bytes);
      });
      out_.append(encoded_);
      progress_.advance(
          input_bytes * static_cast<std::uint64_t>(row + count) /
                  static_cast<std::uint64_t>(num_rows) -
              input_bytes * static_cast<std::uint64_t>(row) / static_cast<std::uint64_t>(num_rows),
          recipe.name);
    }
  }

  static void encode_rows(const RowReader& reader,
                          const Recipe& recipe,
                          std::int64_t begin,
                          std::int64_t count,
                          std::byte* out) {
    if (is_id_type(recipe.dtype)) return reader.read_ids(begin, count, out);
    if (recipe.is_gathered()) return reader.gather(begin, count, out);
    const auto num_elems = static_cast<std::size_t>(count * recipe.row_elems());
    thread_local std::vector<float> rows;
    rows.resize(num_elems);
    reader.read(begin, count, rows.data());
    const quant::Codec& codec =
        kernels::cpu::kernels().codecs[static_cast<std::size_t>(recipe.dtype)];
    GRAFT_CHECK(codec.encode != nullptr, "no encoder for ", name(recipe.dtype));
    codec.encode(rows.data(), out, num_elems);
  }

  const Job& job_;
  formats::GgufWriter& out_;
  ThreadPool& pool_;
  Progress& progress_;
  std::vector<std::byte> encoded_;
};

}  // namespace

void run(const Job& job, const std::filesystem::path& out, ThreadPool& pool, Progress& progress) {
  std::vector<formats::TensorSpec> specs;
  specs.reserve(job.recipes.size());
  for (const Recipe& recipe : job.recipes)
    specs.push_back({.name = recipe.name, .dtype = recipe.dtype, .shape = recipe.shape});
  formats::GgufWriter writer(out, job.metadata, specs);
  TensorWriter tensors(job, writer, pool, progress);
  for (const Recipe& recipe : job.recipes)
    tensors.write(recipe);
  writer.finish();
}

}  // namespace graft::convert
