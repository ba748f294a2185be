#include "graft/tensor/gpus.h"

#include <optional>
#include <system_error>

#include <dlfcn.h>

#include "graft/base/error.h"
#include "graft/base/system/install_paths.h"
#include "graft/base/text/str.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

void* open_library() {
  const fs::path path = cuda_library_path();
  return path.empty() ? nullptr : ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

GpuList none(std::string why) {
  return {.gpus = {}, .unavailable = std::move(why)};
}

}  // namespace

// Next to libgraft.so in lib/, or in ../lib of a statically linked executable in bin/; "../lib"
// resolves to the same directory from both.
fs::path cuda_library_path() {
  const fs::path path = executable_dir() / "../lib/libgraft_cuda.so";
  std::error_code error;
  return fs::is_regular_file(path, error) ? path : fs::path();
}

bool built_with_cuda() {
  return GRAFT_BUILT_WITH_CUDA != 0;
}

GpuList list_gpus() {
  void* library = open_library();
  if (library == nullptr) {
    if (!built_with_cuda()) return none("this program was built without CUDA");
    if (cuda_library_path().empty()) return none("libgraft_cuda.so was not found");
    const char* error = ::dlerror();  // names the missing library
    return none(str("libgraft_cuda.so cannot be loaded: ", error == nullptr ? "" : error));
  }
  auto* abi_version = symbol<cuda_abi::AbiVersionFn>(library, "graft_cuda_abi_version");
  auto* device_count = symbol<cuda_abi::DeviceCountFn>(library, "graft_cuda_device_count");
  auto* properties = symbol<cuda_abi::DevicePropertiesFn>(library, "graft_cuda_device_properties");
  auto* error_text = symbol<cuda_abi::ErrorTextFn>(library, "graft_cuda_error_text");
  const std::int32_t version = abi_version == nullptr ? 0 : abi_version();
  if (version != cuda_abi::kAbiVersion) {
    return none(str("libgraft_cuda.so has ABI version ", version, ", this program needs ",
                    cuda_abi::kAbiVersion));
  }
  std::int32_t count = 0;
  if (const std::int32_t error = device_count(&count); error != 0)
    return none(str("CUDA: ", error_text(error)));
  GpuList list;
  for (std::int32_t i = 0; i < count; ++i) {
    cuda_abi::DeviceProperties gpu = {};
    if (const std::int32_t error = properties(i, &gpu); error != 0)
      return none(str("GPU ", i, ": CUDA: ", error_text(error)));
    list.gpus.push_back(gpu);
  }
  return list;
}

Device requested_device(const std::string& name, const GpuList& list) {
  const std::optional<Device> device = device_from_name(name);
  if (!device) fail("--device ", name, ": unknown device, expected cpu, cuda, cuda:0, cuda:1, …");
  if (*device == kCpu) return kCpu;
  if (list.gpus.empty()) fail("--device ", name, ": no GPU available: ", list.unavailable);
  if (device->index >= static_cast<std::int32_t>(list.gpus.size())) {
    fail("--device ", name, ": not found, the machine has ", list.gpus.size(),
         " GPUs, numbered from cuda:0");
  }
  return *device;
}

}  // namespace graft
