#include "graft/kernels/cuda/formats/decode.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/formats/formats.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// The rows to decode and where to store them.
struct DecodeJob {
  const std::uint8_t* data = nullptr;
  std::int64_t row_bytes = 0;
  std::int64_t rows = 0;  // of the matrix; row ids outside decode to NaN
  std::int64_t cols = 0;
  Scales scales = {};
  std::int64_t first_row = 0;
  const std::int32_t* row_ids = nullptr;  // null: rows from first_row on
  std::int64_t count = 0;                 // rows to decode
  void* out = nullptr;
};

// Grid: one thread per run of 8 values.
template <class Format, class Out>
__global__ void decode_kernel(DecodeJob job) {
  begin_kernel();
  const std::int64_t runs_per_row = (job.cols + kRun - 1) / kRun;
  const std::int64_t item = global_thread();
  const std::int64_t out_row = item / runs_per_row;
  if (out_row >= job.count) return;
  const std::int64_t col = item % runs_per_row * kRun;
  const std::int64_t row = job.row_ids != nullptr ? job.row_ids[out_row] : job.first_row + out_row;
  float values[kRun];
  if (row >= 0 && row < job.rows) {
    decode_run<Format>(job.data + row * job.row_bytes, col, job.cols, values);
    if constexpr (kMayHaveScales<Format>) {
      scale_run(job.scales, scales_of_row(job.scales, row), col, values);
    }
  } else {
    for (float& value : values)
      value = __uint_as_float(0x7fc00000U);
  }
  store_run(static_cast<Out*>(job.out) + out_row * job.cols + col, job.cols - col, values);
}

using Launch = void (*)(const DecodeJob& job, Stream stream);

template <class Format, class Out>
void launch_decode(const DecodeJob& job, Stream stream) {
  const std::int64_t items = job.count * ceil_div(job.cols, kRun);
  launch("decode", decode_kernel<Format, Out>, {blocks_for(items, kThreads), kThreads}, stream,
         job);
}

template <class Format>
struct ToF32 {
  static constexpr Launch kLaunch = launch_decode<Format, float>;
};

template <class Format>
struct ToF16 {
  static constexpr Launch kLaunch = launch_decode<Format, Half>;
};

constexpr auto kToF32 = table_of<Launch, ToF32>(AllFormats{});
constexpr auto kToF16 = table_of<Launch, ToF16>(AllFormats{});

void decode(const std::array<Launch, kNumDTypes>& table,
            const Matrix& matrix,
            DecodeJob job,
            Stream stream) {
  const Launch function = table[static_cast<std::size_t>(matrix.dtype)];
  GRAFT_CHECK(function != nullptr, "no kernel dequantizes ", name(matrix.dtype));
  job.data = static_cast<const std::uint8_t*>(matrix.data);
  job.row_bytes = static_cast<std::int64_t>(matrix.row_bytes());
  job.rows = matrix.rows;
  job.cols = matrix.cols;
  job.scales = matrix.scales;
  function(job, stream);
}

}  // namespace

bool can_decode(DType dtype) {
  return kToF32[static_cast<std::size_t>(dtype)] != nullptr;
}

void decode_rows(
    const Matrix& matrix, std::int64_t first_row, std::int64_t count, float* out, Stream stream) {
  decode(kToF32, matrix, {.first_row = first_row, .count = count, .out = out}, stream);
}

void decode_rows_f16(
    const Matrix& matrix, std::int64_t first_row, std::int64_t count, Half* out, Stream stream) {
  decode(kToF16, matrix, {.first_row = first_row, .count = count, .out = out}, stream);
}

void look_up_rows(const Matrix& matrix,
                  const std::int32_t* row_ids,
                  std::int64_t count,
                  float* out,
                  Stream stream) {
  decode(kToF32, matrix, {.row_ids = row_ids, .count = count, .out = out}, stream);
}

}  // namespace graft::kernels::cuda
