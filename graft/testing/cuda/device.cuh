// Helpers of the CUDA kernel tests: device arrays, random data, comparisons. Without a GPU the
// tests are skipped; with GRAFT_REQUIRE_GPU=1 they fail instead.

#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/quant/codec.h"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cuda::testing {

using Floats = std::vector<float>;

inline void check(cudaError_t error) {
  if (error != cudaSuccess) fail("CUDA: ", cudaGetErrorString(error));
}

// Base class of all fixtures.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) return;
    const char* required = std::getenv("GRAFT_REQUIRE_GPU");
    if (required != nullptr && std::string_view(required) == "1") {
      FAIL() << "GRAFT_REQUIRE_GPU=1, but no CUDA device was found";
    }
    GTEST_SKIP() << "no CUDA device";
  }
};

// An array in device memory. Every byte starts as 0xff: NaN as float, -1 as int32 index.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    check(cudaMalloc(reinterpret_cast<void**>(&data_), bytes() == 0 ? 1 : bytes()));
    check(cudaMemset(data_, 0xff, bytes()));
    check(cudaDeviceSynchronize());  // streams do not wait for the default stream
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    upload(values);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* get() const { return data_; }
  std::size_t size() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  void upload(const std::vector<T>& values) {
    check(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice));
    check(cudaDeviceSynchronize());
  }
  // Synchronizes the device before copying.
  std::vector<T> download() const {
    std::vector<T> values(count_);
    check(cudaDeviceSynchronize());
    check(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  // Normally distributed with mean 0.
  Floats floats(std::int64_t count, float stddev = 1.0F) {
    std::normal_distribution<float> distribution(0.0F, stddev);
    Floats values(static_cast<std::size_t>(count));
    for (float& value : values)
      value = distribution(engine_);
    return values;
  }
  // Uniform in [0, end).
  std::int64_t below(std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>(0, end - 1)(engine_);
  }
  std::vector<std::int32_t> ints(std::int64_t count, std::int64_t end) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    for (std::int32_t& value : values)
      value = static_cast<std::int32_t>(below(end));
    return values;
  }
  std::mt19937& engine() { return engine_; }

 private:
  std::mt19937 engine_;
};

inline float f16_value(std::uint16_t code) {
  float value = 0;
  std::byte bytes[sizeof(code)];
  std::memcpy(bytes, &code, sizeof(code));
  quant::reference_codecs()[static_cast<std::size_t>(DType::F16)].decode(bytes, &value, 1);
  return value;
}

inline float bf16_value(std::uint16_t code) {
  const std::uint32_t bits = static_cast<std::uint32_t>(code) << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Counts values with other bits; every NaN is the same.
inline std::size_t num_different(const Floats& got, const Floats& want) {
  std::size_t count = got.size() == want.size() ? 0 : 1;
  for (std::size_t i = 0; i < got.size() && i < want.size(); ++i) {
    const bool is_same =
        (std::isnan(got[i]) && std::isnan(want[i])) ||
        std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(want[i]);
    count += is_same ? 0 : 1;
  }
  return count;
}

// |got - want| / |want| in the Euclidean norm; infinite when a difference is NaN.
template <class A, class B>
double relative_error(const std::vector<A>& got, const std::vector<B>& want) {
  EXPECT_EQ(got.size(), want.size());
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < want.size() && i < got.size(); ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    if (std::isnan(d)) return INFINITY;
    error += d * d;
    norm += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return norm == 0 ? std::sqrt(error) : std::sqrt(error / norm);
}

}  // namespace graft::kernels::cuda::testing
