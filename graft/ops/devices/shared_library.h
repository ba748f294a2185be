// A shared library with operators, opened at run time: a plugin, or the library of a device. It
// exports one variable, whose version is compared before any of its functions is called.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace graft::ops {

// Closes the library unless keep_open() was called.
class SharedLibrary {
 public:
  // Throws Error with the path when the file is missing or not a library. Resolves functions
  // lazily: functions that this version of graft does not have must not prevent reading the version
  // that the library was built for.
  explicit SharedLibrary(std::filesystem::path path);
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;
  ~SharedLibrary();

  const void* find(const char* symbol) const;  // null: not exported

  // Throws Error when the library was built for another version, or with types of another layout.
  void expect_build(const char* version, std::uint32_t layout, std::uint32_t our_layout) const;

  // Resolves every symbol now, so that none is found missing during a pass, and never closes the
  // library: operators, their types and their strings are code and data of the library, and their
  // lifetime is not tracked.
  void keep_open();

  // Calls `add` and rethrows its exceptions as an Error with the path.
  void call(const std::function<void()>& add) const;

 private:
  void* open(int mode) const;

  std::filesystem::path path_;
  void* handle_;
  bool stays_open_ = false;
};

}  // namespace graft::ops
