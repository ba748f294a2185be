// Grouped GEMM of F16 rows and F16 weights on tensor cores (mma.sync.m16n8k16, f32 accumulation):
// y[row_ids[i]] = scale * x[row_ids[i] / products_per_x] W[tile.matrix]^T.
//
// Block: one RowTile of up to 128 rows of x times kOuts rows of weights, kDepth columns per step.
// x and weights are copied by cp.async through a ring of kStages stages in shared memory:
//
//    stage        x [128 rows][kDepth] F16, weights [kOuts rows][kDepth] F16
//    after them   y row [128] int32, scale [128] f32: of each row of the tile
//
// A row of a stage is kDepth / 8 chunks of 16 bytes. Chunk c of row r is stored at c XOR
// swizzle(r), so that the 8 rows of an ldmatrix lie on distinct banks.
//
// With kSilu the rows of the weight tile alternate, 8 gate rows and 8 up rows of the same outputs:
// a thread then holds gate and up of the same output in neighbouring fragments, and the block
// writes silu(gate) * up of kOuts / 2 outputs.
//
//    grid.x   blocks of outputs, the fastest: blocks that run at the same time cover all outputs
//             of a few row tiles. Their rows of x, and the weights that the tiles of an expert
//             share, are read from L2. With row tiles the fastest, all rows of x would pass
//             through L2 once per block of outputs.
//    grid.y   row tiles
//
// Tiles with fewer rows run with fewer fragments per warp (kRows). The order of summation is the
// same for all of them: ascending columns, 16 at a time.

#pragma once

#include "graft/kernels/cuda/attention/mma.cuh"
#include "graft/kernels/cuda/launch.cuh"
#include "graft/kernels/cuda/linear/linear.h"
#include "graft/kernels/cuda/silu.cuh"

namespace graft::kernels::cuda {

inline constexpr int kChunkValues = 8;  // F16 values of a 16-byte chunk
inline constexpr int kMmaRows = static_cast<int>(kMmaTileRows);

// Size of a block. kMinBlocks: blocks per SM that the registers must allow.
template <int kOutsOfBlock, int kDepthOfStep, int kNumStages, int kNumWarps, int kMinBlocksPerSm>
struct MmaShape {
  static constexpr int kOuts = kOutsOfBlock;
  static constexpr int kDepth = kDepthOfStep;
  static constexpr int kStages = kNumStages;
  static constexpr int kWarps = kNumWarps;
  static constexpr int kMinBlocks = kMinBlocksPerSm;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kRowChunks = kDepth / kChunkValues;
  static constexpr int kRowBytes = kDepth * static_cast<int>(sizeof(Half));
  static constexpr int kXBytes = kMmaRows * kRowBytes;
  static constexpr int kStageBytes = kXBytes + kOuts * kRowBytes;
  static constexpr int kSharedBytes =
      kStages * kStageBytes + kMmaRows * static_cast<int>(sizeof(std::int32_t) + sizeof(float));
  static_assert(kDepth == 32 || kDepth == 64);  // the swizzles below
  static_assert(kStages >= 2 && kOuts % (kWarps * 16) == 0 && kWarps % 2 == 0);
};

// LinearBatch in kernel form. Chunks are 16 bytes.
struct MmaJob {
  const uint4* weights;  // [matrices][out][row_chunks]
  const uint4* second;   // up; null: none
  std::int64_t matrix_chunks;
  const uint4* x;  // [rows][row_chunks]
  const float* scales;
  std::uint32_t row_chunks;
  std::uint32_t x_row_chunks;  // from a row of x that a product reads to the next
  std::uint32_t x_row_stride;  // rows of `scales`, likewise
  std::int32_t products_per_x;
  std::int32_t out;
  Rows y;
  bool y_pairs;  // rows of y are aligned for 8-byte stores
  const RowTile* tiles;
  const std::int32_t* row_ids;
};

// Copies 16 bytes to shared memory asynchronously, or writes zeros when bytes is 0.
__device__ inline void cp_async_16_or_zero(std::uint32_t to, const uint4* from, int bytes) {
#if GRAFT_HAS_MMA
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(bytes)
               : "memory");
#endif
}

// ldmatrix() of mma.cuh with an address in shared memory.
__device__ inline void ldmatrix_at(std::uint32_t address, std::uint32_t (&to)[4]) {
#if GRAFT_HAS_MMA
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
#endif
}

// Rows of 128 bytes: 8 rows cover all positions of a chunk. Rows of 64 bytes: two rows share 128
// bytes, and 4 such pairs cover all positions.
template <int kRowChunks>
__device__ int swizzle(int row) {
  return kRowChunks == 8 ? row % 8 : row / 2 % 4;
}

// Copies the steps of one tile into the ring. Thread t copies chunk t % kRowChunks of the rows
// t / kRowChunks + i * kPassRows, of x and of the weights. Rows past the end of the tile or of the
// matrix repeat its last row; their results are not stored.
template <class Shape, bool kSilu, int kRows>
struct StepCopier {
  static constexpr int kPassRows = Shape::kThreads / Shape::kRowChunks;
  static constexpr int kXPasses = (kRows + kPassRows - 1) / kPassRows;
  static constexpr int kWeightPasses = Shape::kOuts / kPassRows;
  static constexpr int kPasses = kXPasses + kWeightPasses;
  // Outputs from a pass to the next; half of the rows are rows of up.
  static constexpr int kPassOuts = kSilu ? kPassRows / 2 : kPassRows;
  static_assert(kPassRows % 16 == 0 && Shape::kOuts % kPassRows == 0);

  const uint4* x;        // column of the next step
  const uint4* weights;  // column of the next step
  std::uint32_t x_offsets[kXPasses];
  std::uint32_t weight_offset;
  std::uint32_t weight_stride;  // offset from a pass to the next
  std::uint32_t max_weight_offset;
  std::int32_t chunks_left;  // of the row, from this thread's chunk of the next step on
  std::uint32_t to;
  int row;

  __device__ void init(const MmaJob& job, const RowTile& tile, std::uint32_t shared) {
    const int chunk = static_cast<int>(threadIdx.x) % Shape::kRowChunks;
    row = static_cast<int>(threadIdx.x) / Shape::kRowChunks;
    const bool is_up = kSilu && row / 8 % 2 == 1;
    const int out = kSilu ? row / 16 * 8 + row % 8 : row;
    const int first_out = static_cast<int>(blockIdx.x) * (kSilu ? Shape::kOuts / 2 : Shape::kOuts);
    x = job.x + chunk;
    weights = (is_up ? job.second : job.weights) + tile.matrix * job.matrix_chunks + chunk;
    weight_offset = static_cast<std::uint32_t>(first_out + out) * job.row_chunks;
    weight_stride = kPassOuts * job.row_chunks;
    max_weight_offset = static_cast<std::uint32_t>(job.out - 1) * job.row_chunks;
    chunks_left = static_cast<std::int32_t>(job.row_chunks) - chunk;
    to = shared + row * Shape::kRowBytes + (chunk ^ swizzle<Shape::kRowChunks>(row)) * 16;
    GRAFT_UNROLL
    for (int i = 0; i < kXPasses; ++i) {
      const int m = row + i * kPassRows < tile.count ? row + i * kPassRows : tile.count - 1;
      const std::int32_t id = job.row_ids[tile.first + m];
      x_offsets[i] = static_cast<std::uint32_t>(id / job.products_per_x) * job.x_row_chunks;
    }
  }

  // Pass i of the next step: first the passes of the weights, then those of x. Past the last
  // column zeros.
  __device__ void copy_pass(int i, std::uint32_t stage) const {
    const int bytes = chunks_left > 0 ? 16 : 0;
    constexpr int kPassBytes = kPassRows * Shape::kRowBytes;
    if (i < kWeightPasses) {
      const std::uint32_t offset = min(weight_offset + i * weight_stride, max_weight_offset);
      cp_async_16_or_zero(to + stage + Shape::kXBytes + i * kPassBytes, weights + offset, bytes);
      return;
    }
    const int pass = i - kWeightPasses;
    if ((pass + 1) * kPassRows <= kRows || row + pass * kPassRows < kRows) {
      cp_async_16_or_zero(to + stage + pass * kPassBytes, x + x_offsets[pass], bytes);
    }
  }

  __device__ void next_step() {
    x += Shape::kRowChunks;
    weights += Shape::kRowChunks;
    chunks_left -= Shape::kRowChunks;
    cp_async_commit();
  }
};

// The fragments of one warp. Tiles of more than 64 rows: two rows of warps; else every warp has all
// rows and a part of the outputs.
template <class Shape, int kRows>
struct WarpProduct {
  static constexpr int kWarpsDown = kRows > 64 ? 2 : 1;
  static constexpr int kWarpsAcross = Shape::kWarps / kWarpsDown;
  static constexpr int kWarpRows = kRows / kWarpsDown;
  static constexpr int kWarpOuts = Shape::kOuts / kWarpsAcross;
  static constexpr int kRowFragments = kWarpRows / 16;
  static constexpr int kOutFragments = kWarpOuts / 8;
  static_assert(kWarpRows % 16 == 0 && kWarpOuts % 16 == 0);

  float sums[kRowFragments][kOutFragments][4];
  // Two slices of 16 columns: one is multiplied while the next is loaded.
  std::uint32_t x[2][kRowFragments][4];
  std::uint32_t weights[2][kOutFragments / 2][4];
  std::uint32_t x_from;
  std::uint32_t weights_from;
  int first_row;
  int first_out;

  __device__ void init(std::uint32_t shared) {
    const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
    first_row = warp / kWarpsAcross * kWarpRows;
    first_out = warp % kWarpsAcross * kWarpOuts;
    // Lanes 0-15 address the rows of an A fragment, columns 0-7; lanes 16-31 columns 8-15.
    const int x_row = first_row + lane % 16;
    const int x_chunk = lane / 16 ^ swizzle<Shape::kRowChunks>(x_row);
    x_from = shared + x_row * Shape::kRowBytes + x_chunk * 16;
    // Two B fragments: lanes 0-7 address the first 8 outputs, columns 0-7; 8-15 columns 8-15.
    const int w_row = first_out + lane / 16 * 8 + lane % 8;
    const int w_chunk = lane / 8 % 2 ^ swizzle<Shape::kRowChunks>(w_row);
    weights_from = shared + Shape::kXBytes + w_row * Shape::kRowBytes + w_chunk * 16;
    GRAFT_UNROLL
    for (auto& row : sums) {
      GRAFT_UNROLL
      for (auto& fragment : row)
        fragment[0] = fragment[1] = fragment[2] = fragment[3] = 0.0F;
    }
  }

  // Columns 16 slice … 16 slice + 15 of the stage.
  __device__ void load(int buffer, std::uint32_t stage, int slice) {
    const std::uint32_t flip = static_cast<std::uint32_t>(slice) * 32;  // 2 chunks per slice
    const std::uint32_t x_at = (x_from + stage) ^ flip;
    const std::uint32_t weights_at = (weights_from + stage) ^ flip;
    GRAFT_UNROLL
    for (int i = 0; i < kRowFragments; ++i)
      ldmatrix_at(x_at + i * 16 * Shape::kRowBytes, x[buffer][i]);
    GRAFT_UNROLL
    for (int j = 0; j < kOutFragments / 2; ++j)
      ldmatrix_at(weights_at + j * 16 * Shape::kRowBytes, weights[buffer][j]);
  }

  __device__ void multiply(int buffer) {
    GRAFT_UNROLL
    for (int i = 0; i < kRowFragments; ++i) {
      GRAFT_UNROLL
      for (int j = 0; j < kOutFragments; ++j) {
        const auto& pair = weights[buffer][j / 2];
        MmaF16::mma(x[buffer][i], pair[j % 2 * 2], pair[j % 2 * 2 + 1], sums[i][j]);
      }
    }
  }
};

// y[out] and y[out + 1].
__device__ inline void store_pair(const MmaJob& job, float* y, int out, float first, float second) {
  if (job.y_pairs && out + 1 < job.out) {
    *reinterpret_cast<float2*>(y + out) = make_float2(first, second);
    return;
  }
  if (out < job.out) y[out] = first;
  if (out + 1 < job.out) y[out + 1] = second;
}

// Stores sums[row fragment][out fragment]: lane l holds rows l / 4 and l / 4 + 8, outputs 2 (l % 4)
// and the next.
template <bool kSilu, class Shape, int kRows>
__device__ void store_sums(const MmaJob& job,
                           const WarpProduct<Shape, kRows>& product,
                           int count,
                           const std::int32_t* y_rows,
                           const float* scales) {
  using Product = WarpProduct<Shape, kRows>;
  constexpr int kShare = kSilu ? 2 : 1;  // rows of the weight tile per output
  const auto lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int first_out =
      (static_cast<int>(blockIdx.x) * Shape::kOuts + product.first_out) / kShare + lane % 4 * 2;
  GRAFT_UNROLL
  for (int i = 0; i < Product::kRowFragments; ++i) {
    GRAFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int m = product.first_row + 16 * i + 8 * half + lane / 4;
      if (m >= count) continue;
      float* y = job.y.data + y_rows[m] * job.y.stride;
      const float scale = scales[m];
      GRAFT_UNROLL
      for (int j = 0; j < Product::kOutFragments; j += kShare) {
        float values[2];
        GRAFT_UNROLL
        for (int k = 0; k < 2; ++k) {
          values[k] = __fmul_rn(product.sums[i][j][2 * half + k], scale);
          if constexpr (kSilu) {
            const float up = __fmul_rn(product.sums[i][j + 1][2 * half + k], scale);
            values[k] = swiglu(values[k], up);
          }
        }
        store_pair(job, y, first_out + 8 * j / kShare, values[0], values[1]);
      }
    }
  }
}

template <class Shape, bool kSilu, int kRows>
__device__ void multiply_tile(const MmaJob& job, const RowTile& tile) {
  using Copier = StepCopier<Shape, kSilu, kRows>;
  constexpr int kSlices = Shape::kDepth / 16;
  unsigned char* memory = graft_dynamic_shared;
  auto* y_rows = reinterpret_cast<std::int32_t*>(memory + Shape::kStages * Shape::kStageBytes);
  auto* scales = reinterpret_cast<float*>(y_rows + kMmaRows);
  const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
  Copier copier;
  copier.init(job, tile, shared);
  GRAFT_UNROLL
  for (int stage = 0; stage < Shape::kStages - 1; ++stage) {
    GRAFT_UNROLL
    for (int i = 0; i < Copier::kPasses; ++i)
      copier.copy_pass(i, stage * Shape::kStageBytes);
    copier.next_step();
  }
  for (int m = static_cast<int>(threadIdx.x); m < tile.count; m += Shape::kThreads) {
    y_rows[m] = job.row_ids[tile.first + m];
    scales[m] =
        job.scales[static_cast<std::int64_t>(y_rows[m] / job.products_per_x) * job.x_row_stride];
  }
  WarpProduct<Shape, kRows> product;
  product.init(shared);
  cp_async_wait<Shape::kStages - 2>();
  __syncthreads();
  std::uint32_t read_stage = 0;
  std::uint32_t write_stage = (Shape::kStages - 1) * Shape::kStageBytes;
  const auto after = [](std::uint32_t stage) {
    return stage == (Shape::kStages - 1) * Shape::kStageBytes ? 0U : stage + Shape::kStageBytes;
  };
  product.load(0, read_stage, 0);
  const int num_steps =
      static_cast<int>((job.row_chunks + Shape::kRowChunks - 1) / Shape::kRowChunks);
  for (int step = 0; step < num_steps; ++step) {
    GRAFT_UNROLL
    for (int slice = 0; slice < kSlices; ++slice) {
      if (slice == kSlices - 1) {
        cp_async_wait<Shape::kStages - 2>();  // the next step is complete,
        __syncthreads();                      // and all warps have loaded this one
        read_stage = after(read_stage);
      }
      product.load((slice + 1) % 2, read_stage, (slice + 1) % kSlices);
      // The copies of step + kStages - 1, spread over the slices but the last. They overwrite the
      // stage of the previous step.
      GRAFT_UNROLL
      for (int i = 0; i < Copier::kPasses; ++i)
        if (i * (kSlices - 1) / Copier::kPasses == slice) copier.copy_pass(i, write_stage);
      if (slice == kSlices - 2) {
        copier.next_step();
        write_stage = after(write_stage);
      }
      product.multiply(slice % 2);
    }
  }
  store_sums<kSilu>(job, product, tile.count, y_rows, scales);
}

template <class Shape, bool kSilu>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kMinBlocks) gemm_mma_kernel(MmaJob job) {
  begin_kernel();
#if GRAFT_HAS_MMA
  const RowTile tile = job.tiles[blockIdx.y];
  if (tile.count <= 0) return;
  if (tile.count > 96) {
    multiply_tile<Shape, kSilu, 128>(job, tile);
  } else if (tile.count > 64) {
    multiply_tile<Shape, kSilu, 96>(job, tile);
  } else if (tile.count > 32) {
    multiply_tile<Shape, kSilu, 64>(job, tile);
  } else if (tile.count > 16) {
    multiply_tile<Shape, kSilu, 32>(job, tile);
  } else {
    multiply_tile<Shape, kSilu, 16>(job, tile);
  }
#else
  __trap();
#endif
}

template <class Shape, bool kSilu>
void launch_gemm_mma(const MmaJob& job, std::int64_t num_tiles, Stream stream) {
  const dim3 grid(blocks_for(job.out, kSilu ? Shape::kOuts / 2 : Shape::kOuts),
                  static_cast<unsigned>(num_tiles));
  launch_with_shared("gemm_mma", gemm_mma_kernel<Shape, kSilu>,
                     {grid, Shape::kThreads, Shape::kSharedBytes}, stream, job);
}

// `products.stack` and `products.second` are F16 with `in` a multiple of 8.
MmaJob mma_job(const LinearBatch& products, const RowTiles& rows, const F16Rows& f16);

}  // namespace graft::kernels::cuda
