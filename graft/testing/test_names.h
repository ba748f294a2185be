// For parameterized tests: the names of their parameters.

#pragma once

#include <string>

#include <gtest/gtest.h>

namespace graft {

// gtest allows neither hyphens nor dots in a name.
inline std::string checkpoint_test_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::erase_if(name, [](char letter) { return letter == '-' || letter == '.'; });
  return name;
}

}  // namespace graft
