#include "graft/base/system/own_folder.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

// Unit tests link graft statically; tests/installation_test.cpp covers libgraft.so.
TEST(OwnFolder, IsTheExecutablesDirectoryWhenLinkedStatically) {
  EXPECT_EQ(own_folder(), std::filesystem::canonical("/proc/self/exe").parent_path());
}

}  // namespace
}  // namespace graft
