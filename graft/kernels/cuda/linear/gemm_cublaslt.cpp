#include "graft/kernels/cuda/linear/gemm_cublaslt.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "graft/base/check.h"
#include "graft/base/error.h"

namespace graft::kernels::cuda {
namespace {

// The functions used, by their cuBLASLt names.
struct Functions {
  decltype(&::cublasLtGetVersion) get_version = nullptr;
  decltype(&::cublasLtCreate) create = nullptr;
  decltype(&::cublasLtMatmul) matmul = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) get_heuristic = nullptr;
  decltype(&::cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&::cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&::cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&::cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&::cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&::cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
};

template <class Function>
bool resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// The library is never closed. Its major version must match the headers.
std::optional<Functions> open_library() {
  const std::string versioned = str("libcublasLt.so.", CUBLAS_VER_MAJOR);
  void* library = nullptr;
  for (const char* name : {versioned.c_str(), "libcublasLt.so"}) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return std::nullopt;
  Functions f;
  const bool complete = resolve(library, "cublasLtGetVersion", f.get_version) &&
                        resolve(library, "cublasLtCreate", f.create) &&
                        resolve(library, "cublasLtMatmul", f.matmul) &&
                        resolve(library, "cublasLtMatmulAlgoGetHeuristic", f.get_heuristic) &&
                        resolve(library, "cublasLtMatmulDescCreate", f.desc_create) &&
                        resolve(library, "cublasLtMatmulDescDestroy", f.desc_destroy) &&
                        resolve(library, "cublasLtMatmulDescSetAttribute", f.desc_set) &&
                        resolve(library, "cublasLtMatrixLayoutCreate", f.layout_create) &&
                        resolve(library, "cublasLtMatrixLayoutDestroy", f.layout_destroy) &&
                        resolve(library, "cublasLtMatmulPreferenceCreate", f.preference_create) &&
                        resolve(library, "cublasLtMatmulPreferenceDestroy", f.preference_destroy) &&
                        resolve(library, "cublasLtMatmulPreferenceSetAttribute", f.preference_set);
  if (!complete || f.get_version() / 10000 != CUBLAS_VER_MAJOR) return std::nullopt;
  return f;
}

const std::optional<Functions>& functions() {
  static const std::optional<Functions> opened = open_library();
  return opened;
}

void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail("cuBLASLt failed with status ", static_cast<int>(status));
}

struct TypePair {
  DType dtype;
  cudaDataType_t cuda;
};
constexpr std::array kTypes = {TypePair{DType::F32, CUDA_R_32F}, TypePair{DType::F16, CUDA_R_16F},
                               TypePair{DType::BF16, CUDA_R_16BF}};

cudaDataType_t cuda_type(DType dtype) {
  for (const TypePair& pair : kTypes) {
    if (pair.dtype == dtype) return pair.cuda;
  }
  GRAFT_CHECK(false, "cuBLASLt GEMM does not support ", name(dtype));
  return CUDA_R_32F;
}

struct Layout {
  cublasLtMatrixLayout_t layout = nullptr;

  Layout(cudaDataType_t type, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
    check(functions()->layout_create(&layout, type, static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(cols), stride));
  }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  ~Layout() { functions()->layout_destroy(layout); }
};

// cuBLASLt is column-major: rows of `in` values are its columns, so it computes y^T = weight x^T.
struct Operation {
  cublasLtMatmulDesc_t desc = nullptr;
  Layout weight;
  Layout x;
  Layout y;

  explicit Operation(const DenseGemm& p)
      : weight(cuda_type(p.dtype), p.in, p.out, p.in),
        x(cuda_type(p.dtype), p.in, p.rows, p.x_stride),
        y(CUDA_R_32F, p.out, p.rows, p.y.stride) {
    check(functions()->desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (p.bias == nullptr) return;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() { functions()->desc_destroy(desc); }

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(functions()->desc_set(desc, attribute, &value, sizeof(value)));
  }
};

unsigned alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return static_cast<unsigned>(address % 16 == 0 ? 16 : address & (~address + 1));
}

// Everything that algorithm selection depends on.
using ShapeKey = std::tuple<DType,
                            std::int64_t,
                            std::int64_t,
                            std::int64_t,
                            std::int64_t,
                            std::int64_t,
                            bool,
                            unsigned,
                            unsigned,
                            std::size_t>;

// cuBLASLt on one device.
class DeviceHandle {
 public:
  static std::unique_ptr<DeviceHandle> open() {
    cublasLtHandle_t handle = nullptr;
    if (!functions() || functions()->create(&handle) != CUBLAS_STATUS_SUCCESS) return nullptr;
    return std::make_unique<DeviceHandle>(handle);
  }
  explicit DeviceHandle(cublasLtHandle_t handle) : handle_(handle) {}

  // With the algorithm of the row bucket, or of the exact size where that one does not support it.
  bool multiply(const DenseGemm& p, void* workspace, std::size_t bytes, Stream stream) {
    const Operation operation(p);
    for (const std::int64_t rows : {row_bucket(p.rows), p.rows}) {
      const std::optional<cublasLtMatmulAlgo_t>& algo = algo_for(p, rows, bytes);
      if (!algo) continue;
      const float one = 1.0F;
      const float zero = 0.0F;
      const cublasStatus_t status =
          functions()->matmul(handle_, operation.desc, &one, p.weight, operation.weight.layout, p.x,
                              operation.x.layout, &zero, p.y.data, operation.y.layout, p.y.data,
                              operation.y.layout, &*algo, workspace, bytes, stream);
      if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) continue;
      check(status);
      return true;
    }
    return false;
  }

 private:
  // Heuristics take some 50 us, and prompts have any number of rows: one query per bucket. Small
  // steps for the sizes of decode batches, where the algorithm for more rows is slower.
  static std::int64_t row_bucket(std::int64_t rows) {
    const std::int64_t step = rows <= 64 ? 8 : 64;
    return (rows + step - 1) / step * step;
  }

  const std::optional<cublasLtMatmulAlgo_t>& algo_for(const DenseGemm& p,
                                                      std::int64_t rows,
                                                      std::size_t workspace_bytes) {
    const ShapeKey key = {p.dtype,
                          rows,
                          p.out,
                          p.in,
                          p.x_stride,
                          p.y.stride,
                          p.bias != nullptr,
                          std::min(alignment_of(p.x), alignment_of(p.weight)),
                          alignment_of(p.y.data),
                          workspace_bytes};
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = algos_.try_emplace(key);
    if (is_new) {
      DenseGemm bucket = p;
      bucket.rows = rows;
      entry->second = select_algo(bucket, Operation(bucket), workspace_bytes);
    }
    return entry->second;  // std::map does not move its entries
  }

  std::optional<cublasLtMatmulAlgo_t> select_algo(const DenseGemm& p,
                                                  const Operation& operation,
                                                  std::size_t workspace_bytes) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check(functions()->preference_create(&preference));
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(functions()->preference_set(preference, attribute, &value, sizeof(value)));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes});
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t{alignment_of(p.weight)});
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, std::uint32_t{alignment_of(p.x)});
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, std::uint32_t{alignment_of(p.y.data)});
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, std::uint32_t{alignment_of(p.y.data)});
    cublasLtMatmulHeuristicResult_t result = {};
    int count = 0;
    const cublasStatus_t status = functions()->get_heuristic(
        handle_, operation.desc, operation.weight.layout, operation.x.layout, operation.y.layout,
        operation.y.layout, preference, 1, &result, &count);
    functions()->preference_destroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0) return std::nullopt;
    return result.algo;
  }

  cublasLtHandle_t handle_;  // never destroyed
  std::mutex mutex_;
  std::map<ShapeKey, std::optional<cublasLtMatmulAlgo_t>> algos_;
};

// Of the current device; null: the library is not available.
DeviceHandle* current_handle() {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<DeviceHandle>> handles;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return nullptr;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = handles.try_emplace(device);
  if (is_new) entry->second = DeviceHandle::open();
  return entry->second.get();
}

}  // namespace

bool has_cublaslt() {
  return current_handle() != nullptr;
}

bool gemm_cublaslt(const DenseGemm& product,
                   void* workspace,
                   std::size_t workspace_bytes,
                   Stream stream) {
  if (product.rows == 0) return true;
  DeviceHandle* handle = current_handle();
  return handle != nullptr && handle->multiply(product, workspace, workspace_bytes, stream);
}

}  // namespace graft::kernels::cuda
