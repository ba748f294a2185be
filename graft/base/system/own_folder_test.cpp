#include "graft/base/system/own_folder.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

// The tests have the modules linked in; libgraft.so answers in tests/installation_test.cpp, where
// an installed program finds its rule files.
TEST(OwnFolder, IsTheProgramsWhereThereIsNoLibrary) {
  EXPECT_EQ(own_folder(), std::filesystem::canonical("/proc/self/exe").parent_path());
}

}  // namespace
}  // namespace graft
