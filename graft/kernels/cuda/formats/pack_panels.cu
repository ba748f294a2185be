#include "graft/kernels/cuda/formats/pack_panels.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/formats/panel_layout.cuh"
#include "graft/kernels/cuda/formats/panel_types.h"
#include "graft/kernels/cuda/launch.cuh"
#include "graft/packing/pack_chunk.h"

namespace graft::kernels::cuda {
namespace {

constexpr int kChunks = 8;  // of a panel per thread block
constexpr std::int64_t kMaxGridSide = 65535;

// A thread packs one block of one row. Grid: [chunks / 8, panels].
template <class Type>
__global__ void __launch_bounds__(kChunks* kPanelRows) pack_panels_kernel(
    const typename Type::Block* stored, int rows, int chunks, std::byte* panels) {
  begin_kernel();
  using Layout = PanelLayout<Type::kType>;
  const int row = static_cast<int>(threadIdx.x) % kPanelRows;
  const int chunk =
      static_cast<int>(blockIdx.x) * kChunks + static_cast<int>(threadIdx.x) / kPanelRows;
  const std::int64_t stored_row = std::int64_t{blockIdx.y} * kPanelRows + row;
  if (chunk >= chunks) return;
  packing::RowChunk values = {};
  if (stored_row < rows) packing::read_block(stored[stored_row * chunks + chunk], values);
  std::byte* to = panels + (std::int64_t{blockIdx.y} * chunks + chunk) * Layout::kChunkBytes;
  packing::store_chunk<Layout::kFormat>(values, to, row);
}

using Launch = void (*)(const std::byte* stored,
                        std::int64_t rows,
                        std::int64_t cols,
                        std::byte* panels,
                        Stream stream);

template <class Type>
void launch_pack(const std::byte* stored,
                 std::int64_t rows,
                 std::int64_t cols,
                 std::byte* panels,
                 Stream stream) {
  const std::int64_t chunks = cols / PanelLayout<Type::kType>::kChunkCols;
  const std::int64_t num_panels = ceil_div(rows, kPanelRows);
  GRAFT_CHECK(num_panels <= kMaxGridSide, rows, " rows");
  launch(
      "pack_panels", pack_panels_kernel<Type>,
      {dim3(blocks_for(chunks, kChunks), static_cast<unsigned>(num_panels)), kChunks * kPanelRows},
      stream, reinterpret_cast<const typename Type::Block*>(stored), static_cast<int>(rows),
      static_cast<int>(chunks), panels);
}

constexpr auto kTable =
    panel_type_table<Launch>([](auto type) { return launch_pack<decltype(type)>; });

}  // namespace

bool has_panels(DType dtype) {
  return kTable[static_cast<std::size_t>(dtype)] != nullptr;
}

void pack_panels(DType dtype,
                 const std::byte* stored,
                 std::int64_t rows,
                 std::int64_t cols,
                 std::byte* panels,
                 Stream stream) {
  GRAFT_CHECK(has_panels(dtype), "no panels of ", name(dtype), " on a GPU");
  kTable[static_cast<std::size_t>(dtype)](stored, rows, cols, panels, stream);
}

}  // namespace graft::kernels::cuda
