#include "graft/kernels/cuda/linear/panels/core_rows.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kParts = kPanelStepBlocks + 1;  // of a row in a step: blocks, sums

// Where the pieces of a row in a step lie.
struct CoreOrder {
  static __device__ unsigned char* row(unsigned char* out, int step, int row, int num_rows) {
    const int num_groups = (num_rows + kCoreRows - 1) / kCoreRows;
    return out + (std::int64_t{step} * num_groups + row / kCoreRows) * kCoreGroupBytes +
           row % kCoreRows * kPieceBytes;
  }
  static constexpr int kPieceStride = kCoreBytes;
};
struct RowOrder {
  static __device__ unsigned char* row(unsigned char* out, int step, int row, int num_rows) {
    return out + (std::int64_t{step} * num_rows + row) * kRowPieces * kPieceBytes;
  }
  static constexpr int kPieceStride = kPieceBytes;
};

// A thread has one block of a row, or the sums of a step: four parts of 16 or 8 bytes, of which it
// makes four or two pieces.
template <class Order>
__global__ void row_pieces_kernel(PanelRows x, int num_steps, int padded_rows, unsigned char* out) {
  begin_kernel();
  const std::int64_t at = global_thread();
  const auto row = static_cast<int>(at % padded_rows);
  const auto part = static_cast<int>(at / padded_rows);
  const int step = part / kParts;
  const int block = part % kParts;
  if (step >= num_steps) return;
  unsigned char* to = Order::row(out, step, row, static_cast<int>(x.rows));
  const bool is_there = row < x.rows;
  const auto put = [&](int piece, uint4 value) {
    *reinterpret_cast<uint4*>(to + piece * Order::kPieceStride) = value;
  };
  if (block == kPanelStepBlocks) {
    const auto* from = reinterpret_cast<const uint2*>(panel_sums(x, step, row));
    uint2 sums[4] = {};
    GRAFT_UNROLL
    for (int t = 0; t < 4; ++t)
      if (is_there) sums[t] = from[t];
    put(kRowPieces - 2, make_uint4(sums[0].x, sums[1].x, sums[2].x, sums[3].x));
    put(kRowPieces - 1, make_uint4(sums[0].y, sums[1].y, sums[2].y, sums[3].y));
    return;
  }
  const auto* from = reinterpret_cast<const uint4*>(panel_values(x, step, row) +
                                                    (block ^ row % 2) * kPanelBlockCols);
  uint4 values[4] = {};
  GRAFT_UNROLL
  for (int t = 0; t < 4; ++t)
    if (is_there) values[t] = from[t];
  put(4 * block, make_uint4(values[0].x, values[1].x, values[2].x, values[3].x));
  put(4 * block + 1, make_uint4(values[0].y, values[1].y, values[2].y, values[3].y));
  put(4 * block + 2, make_uint4(values[0].z, values[1].z, values[2].z, values[3].z));
  put(4 * block + 3, make_uint4(values[0].w, values[1].w, values[2].w, values[3].w));
}

template <class Order>
void launch_pieces(
    const PanelRows& x, std::int64_t cols, std::int64_t padded_rows, void* out, Stream stream) {
  const int num_steps = padded_panel_cols(cols) / kPanelStepCols;
  launch("row_pieces", row_pieces_kernel<Order>,
         {.grid = blocks_for(num_steps * kParts * padded_rows, kThreads), .block = kThreads},
         stream, x, num_steps, static_cast<int>(padded_rows), static_cast<unsigned char*>(out));
}

}  // namespace

// The rows of the last group that do not exist are zeros.
void to_core_rows(const PanelRows& x, std::int64_t cols, void* out, Stream stream) {
  launch_pieces<CoreOrder>(x, cols, num_core_groups(x.rows) * kCoreRows, out, stream);
}

void to_row_pieces(const PanelRows& x, std::int64_t cols, void* out, Stream stream) {
  launch_pieces<RowOrder>(x, cols, x.rows, out, stream);
}

}  // namespace graft::kernels::cuda
