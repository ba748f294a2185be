#include "graft/kernels/cuda/decode.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/formats.cuh"

namespace graft::cuda {
namespace {

constexpr int kThreads = 256;

// Which rows, and where to.
struct DecodeJob {
  const std::uint8_t* data = nullptr;
  std::int64_t row_bytes = 0;
  std::int64_t rows = 0;  // that exist
  std::int64_t cols = 0;
  Scales scales = {};
  std::int64_t first_row = 0;
  const std::int32_t* row_ids = nullptr;  // null: rows from first_row on
  std::int64_t count = 0;
  void* out = nullptr;
};

__device__ void store_run(float* to, std::int64_t count, const float (&values)[kRun]) {
  if (count >= kRun && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    auto* vectors = reinterpret_cast<float4*>(to);
    vectors[0] = make_float4(values[0], values[1], values[2], values[3]);
    vectors[1] = make_float4(values[4], values[5], values[6], values[7]);
    return;
  }
  GRAFT_UNROLL
  for (int i = 0; i < kRun; ++i) {
    if (i < count) to[i] = values[i];
  }
}

__device__ std::uint32_t bf16_pair(float low, float high) {
  return to_bf16(low) | static_cast<std::uint32_t>(to_bf16(high)) << 16;
}

__device__ void store_run(Bf16* to, std::int64_t count, const float (&values)[kRun]) {
  if (count >= kRun && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    *reinterpret_cast<uint4*>(to) =
        make_uint4(bf16_pair(values[0], values[1]), bf16_pair(values[2], values[3]),
                   bf16_pair(values[4], values[5]), bf16_pair(values[6], values[7]));
    return;
  }
  GRAFT_UNROLL
  for (int i = 0; i < kRun; ++i) {
    if (i < count) to[i] = to_bf16(values[i]);
  }
}

// A thread per run.
template <class Format, class Out>
__global__ void decode_kernel(DecodeJob job) {
  const std::int64_t runs_per_row = (job.cols + kRun - 1) / kRun;
  const std::int64_t item = global_thread();
  const std::int64_t place = item / runs_per_row;
  if (place >= job.count) return;
  const std::int64_t col = item % runs_per_row * kRun;
  const std::int64_t row = job.row_ids != nullptr ? job.row_ids[place] : job.first_row + place;
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
  store_run(static_cast<Out*>(job.out) + place * job.cols + col, job.cols - col, values);
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
struct ToBf16 {
  static constexpr Launch kLaunch = launch_decode<Format, Bf16>;
};

constexpr auto kToF32 = table_of<Launch, ToF32>(AllFormats{});
constexpr auto kToBf16 = table_of<Launch, ToBf16>(AllFormats{});

void decode(const std::array<Launch, kNumDTypes>& table,
            const Matrix& matrix,
            DecodeJob job,
            Stream stream) {
  const Launch function = table[static_cast<std::size_t>(matrix.dtype)];
  GRAFT_CHECK(function != nullptr, "no kernel decodes ", name(matrix.dtype));
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

void decode_rows_bf16(
    const Matrix& matrix, std::int64_t first_row, std::int64_t count, Bf16* out, Stream stream) {
  decode(kToBf16, matrix, {.first_row = first_row, .count = count, .out = out}, stream);
}

void look_up_rows(const Matrix& matrix,
                  const std::int32_t* row_ids,
                  std::int64_t count,
                  float* out,
                  Stream stream) {
  decode(kToF32, matrix, {.row_ids = row_ids, .count = count, .out = out}, stream);
}

}  // namespace graft::cuda
