#include "graft/formats/safetensors/safetensors_writer.h"

#include <csignal>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graft/testing/formats.h"

namespace graft::formats {
namespace {

using test::error_of;
using test::pattern;

std::string safetensors_error(const TensorSpec& spec) {
  const TempDir folder;
  const std::string path = (folder / "x").string();
  return error_of([&] { SafetensorsWriter(path, {}, {spec}); }).substr(path.size() + 2);
}

TEST(SafetensorsWriter, PadsTheHeaderTo8Bytes) {
  const TempDir folder;
  SafetensorsWriter writer(folder / "x", {{"format", "pt"}}, {{"w", DType::F16, {1, 2}}});
  writer.append(pattern(4, 0));
  writer.finish();
  const auto bytes = test::read_file(folder / "x");
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}})";
  EXPECT_EQ(text.substr(8, header.size()), header);
  const auto length = static_cast<unsigned char>(text[0]);
  EXPECT_EQ(length % 8, 0);
  EXPECT_EQ(text.size(), 8U + length + 4U);
  EXPECT_EQ(text.substr(8 + header.size(), length - header.size()),
            std::string(length - header.size(), ' '));
}

TEST(SafetensorsWriter, RejectsUnsupportedTensors) {
  EXPECT_EQ(safetensors_error({"w", DType::Q4_K, {256}}),
            "tensor \"w\": Q4_K cannot be stored in safetensors");
  EXPECT_EQ(safetensors_error({"w", DType::F32, {-1}}),
            "tensor \"w\": shape [-1] has a dimension of -1, expected at least 0");
  EXPECT_EQ(safetensors_error({"__metadata__", DType::F32, {1}}),
            "tensor \"__metadata__\": safetensors cannot store this name");
  EXPECT_EQ(safetensors_error({"a\tb", DType::F32, {1}}),
            "tensor \"a?b\": safetensors cannot store this name");
  const TempDir folder;
  EXPECT_EQ(error_of([&] {
              SafetensorsWriter(folder / "x", {}, {{"w", DType::F32, {1}}, {"w", DType::F32, {1}}});
            }),
            (folder / "x").string() + ": tensor \"w\": is a duplicate");
  EXPECT_EQ(error_of([&] {
              SafetensorsWriter(folder / "x", {{"k", "\xFF"}}, {});
            }),
            (folder / "x").string() + ": metadata \"k\" is not UTF-8");
}

// A limit on the size of files stands for a full disk.
TEST(SafetensorsWriter, DiskFullErrorReportsTheBytesWritten) {
  const TempDir folder;
  struct rlimit old_limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  auto* const old_handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit = old_limit;
  limit.rlim_cur = 1U << 20U;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string error = error_of([&] {
    SafetensorsWriter writer(folder / "x", {}, {{"w", DType::U8, {4U << 20U}}});
    writer.append(pattern(4U << 20U, 0));
    writer.finish();
  });
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_NE(error.find("writing failed after 1048576 of 41943"), std::string::npos) << error;
  EXPECT_TRUE(test::names_in(folder).empty());
}

TEST(SafetensorsWriter, LeavesNoFileWhenKilled) {
  const TempDir folder;
  const int fd = ::open(folder.path().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
  if (fd < 0) GTEST_SKIP() << folder.path() << " cannot have files without a name";
  ::close(fd);
  const pid_t child = ::fork();
  if (child == 0) {
    SafetensorsWriter writer(folder / "x", {}, {{"w", DType::U8, {4U << 20U}}});
    writer.append(pattern(3U << 20U, 0));
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_TRUE(test::names_in(folder).empty());
}

}  // namespace
}  // namespace graft::formats
