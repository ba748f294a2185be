#include "graft/base/progress.h"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace graft {
namespace {

std::string content_of(std::FILE* file) {
  std::fflush(file);
  std::rewind(file);
  std::string text(10000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

TEST(Progress, IsALineEveryTenPercentInAPipe) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  {
    Progress progress("load", 40, file, "answers");
    for (int i = 0; i < 40; ++i)
      progress.advance(1, "item");
  }
  const std::string text = content_of(file);
  std::fclose(file);
  EXPECT_TRUE(text.starts_with("load: 10 %, 4 of 40 answers, ")) << text;
  EXPECT_NE(text.find("load: 100 %, 40 of 40 answers, "), std::string::npos) << text;
  std::size_t num_lines = 0;
  for (const char c : text)
    num_lines += c == '\n' ? 1 : 0;
  EXPECT_EQ(num_lines, 10U) << text;
}

// What a terminal of this width shows of 100 MiB of 400 MiB after 0.6 seconds; empty: no terminals.
std::string drawn(int columns) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) return "";
  std::FILE* out = std::fopen(::ptsname(terminal), "w");
  if (out == nullptr) return "";
  winsize size = {};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  ::ioctl(terminal, TIOCSWINSZ, &size);
  std::string text(1000, '\0');
  {
    Progress progress("pull", 400U << 20U, out);
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    progress.advance(100U << 20U, "model.gguf");
    const ssize_t count = ::read(terminal, text.data(), text.size());
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  std::fclose(out);
  ::close(terminal);
  return text;
}

TEST(Progress, HasRateAndRemainingTimeOnATerminal) {
  const std::string wide = drawn(120);
  if (wide.empty()) GTEST_SKIP() << "no terminals here";
  EXPECT_NE(wide.find("[######..................]  25 %  100.0 MiB of 400.0 MiB  "),
            std::string::npos)
      << wide;
  EXPECT_NE(wide.find("MiB/s  "), std::string::npos) << wide;
  EXPECT_NE(wide.find(" left  model.gguf"), std::string::npos) << wide;
  // The bar gives way.
  for (const int columns : {80, 62}) {
    const std::string narrow = drawn(columns);
    EXPECT_NE(narrow.find(" left"), std::string::npos) << narrow;
    EXPECT_LT(narrow.size(), static_cast<std::size_t>(columns) + 5) << "with \\r ESC [K";
  }
}

}  // namespace
}  // namespace graft
