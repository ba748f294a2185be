#include "graft/ops/devices/shared_library.h"

#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <dlfcn.h>

#include "graft/base/error.h"
#include "graft/version.h"

namespace graft::ops {

namespace fs = std::filesystem;

SharedLibrary::SharedLibrary(fs::path path) : path_(std::move(path)), handle_(open(RTLD_LAZY)) {}

SharedLibrary::~SharedLibrary() {
  if (!stays_open_) ::dlclose(handle_);
}

// With the whole path, because dlopen searches a bare name in the folders of the system.
void* SharedLibrary::open(int mode) const {
  std::error_code missing;
  if (!fs::is_regular_file(path_, missing)) fail(path_.string(), ": no such file");
  const fs::path whole = fs::absolute(path_);
  void* handle = ::dlopen(whole.c_str(), mode | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const char* error = ::dlerror();
  std::string_view cause = error == nullptr ? "unknown cause" : error;
  const std::string subject = whole.string() + ": ";
  if (cause.starts_with(subject)) cause.remove_prefix(subject.size());
  fail(path_.string(), ": cannot be loaded: ", cause);
}

const void* SharedLibrary::find(const char* symbol) const {
  return ::dlsym(handle_, symbol);
}

void SharedLibrary::expect_build(const char* version,
                                 std::uint32_t layout,
                                 std::uint32_t our_layout) const {
  if (std::string_view(version) != GRAFT_VERSION)
    fail(path_.string(), ": built for graft ", version, ", this is graft " GRAFT_VERSION);
  if (layout != our_layout) {
    fail(path_.string(),
         ": built for another build of graft " GRAFT_VERSION ": its type layout is ", layout,
         ", expected ", our_layout);
  }
}

void SharedLibrary::keep_open() {
  open(RTLD_NOW);
  stays_open_ = true;
}

void SharedLibrary::call(const std::function<void()>& add) const {
  try {
    add();
  } catch (const std::exception& error) {
    fail(path_.string(), ": ", error.what());
  } catch (...) {
    fail(path_.string(), ": add_operators threw an exception that is not a std::exception");
  }
}

}  // namespace graft::ops
