// bin/graft of the archive: starts the program with the bundled dynamic loader and libraries, so
// that it does not depend on the C library of the system. Linked statically.

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

// The folder of the unpacked archive: two levels above this program, symbolic links resolved.
std::string root() {
  std::array<char, PATH_MAX> path = {};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) return {};
  std::string folder(path.data(), static_cast<std::size_t>(length));
  for (int level = 0; level < 2; ++level)
    folder.resize(folder.rfind('/'));
  return folder;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = root();
  // A colon or semicolon separates library paths and cannot be escaped.
  if (folder.empty() || folder.find_first_of(":;") != std::string::npos) {
    std::fprintf(stderr, "graft: %s: cannot run from this folder (%s)\n", folder.c_str(),
                 folder.empty() ? "/proc is not mounted" : "its path contains ':' or ';'");
    return 2;
  }
  // Libraries of the system's C library and plugins of the system's hwloc do not fit the bundled
  // ones.
  ::unsetenv("LD_PRELOAD");
  ::unsetenv("LD_AUDIT");
  ::setenv("HWLOC_PLUGINS_PATH", (folder + "/lib/hwloc").c_str(), 1);
  // A link to the loader: its name is the name of the process.
  std::string loader = folder + "/libexec/graft";
  std::string libraries = folder + "/lib";
  std::string program = folder + "/libexec/program";
  std::array<std::string, 3> flags = {"--library-path", "--argv0", "graft"};
  std::vector<char*> words = {loader.data(),   flags[0].data(), libraries.data(),
                              flags[1].data(), flags[2].data(), program.data()};
  words.insert(words.end(), argv + (argc > 0 ? 1 : 0), argv + argc);
  words.push_back(nullptr);
  ::execv(loader.c_str(), words.data());
  std::fprintf(stderr, "graft: %s: %s\n", loader.c_str(), std::strerror(errno));
  return 2;
}
