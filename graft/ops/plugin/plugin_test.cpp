#include "graft/ops/plugin/plugin.h"

#include <fstream>
#include <string>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"

namespace graft::ops {
namespace {

namespace fs = std::filesystem;

// The error of load_plugin() for a file. Plugins that load link libgraft.so and are tested through
// the program, in tests/installation_test.cpp.
std::string complaint(const fs::path& path) {
  Registry registry;
  try {
    load_plugin(path, registry);
  } catch (const Error& error) {
    EXPECT_TRUE(registry.all().empty());
    return error.what();
  }
  return "";
}

TEST(Plugin, MissingFilesAreNamed) {
  EXPECT_EQ(complaint("/no/such/plugin.so"), "/no/such/plugin.so: no such file");
  EXPECT_EQ(complaint(""), ": no such file");
  EXPECT_EQ(complaint("/tmp"), "/tmp: no such file");
  // A name that the loader would find in the system's folders.
  EXPECT_EQ(complaint("libc.so.6"), "libc.so.6: no such file");
}

TEST(Plugin, RejectsFilesThatAreNotLibraries) {
  const TempDir folder;
  const fs::path path = folder / "plugin.so";
  std::ofstream(path) << std::string(4096, 'x');
  EXPECT_EQ(complaint(path), path.string() + ": cannot be loaded: invalid ELF header");
}

TEST(Plugin, RejectsLibrariesWithoutAPlugin) {
  Dl_info info = {};
  ASSERT_NE(::dladdr(::dlsym(RTLD_DEFAULT, "getpid"), &info), 0);
  const fs::path path = fs::canonical(info.dli_fname);
  EXPECT_EQ(complaint(path),
            path.string() + ": not a graft plugin: the symbol graft_plugin is missing");
}

}  // namespace
}  // namespace graft::ops
