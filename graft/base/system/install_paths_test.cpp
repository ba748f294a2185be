#include "graft/base/system/install_paths.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

// Unit tests link graft statically; tests/installation_test.cpp covers libgraft.so.
TEST(OwnFolder, IsTheExecutableDirectoryWhenLinkedStatically) {
  EXPECT_EQ(executable_dir(), std::filesystem::canonical("/proc/self/exe").parent_path());
}

}  // namespace
}  // namespace graft
