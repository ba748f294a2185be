#include "graft/server/logs/log_writer.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/server/logs/logs.h"

namespace graft::server {
namespace {

using Clock = std::chrono::steady_clock;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 1000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// Messages of a writer, from any thread.
struct Problems {
  LogWriter::OnProblem callback() {
    return [this](const std::string& message) {
      const std::lock_guard lock(mutex);
      messages.push_back(message);
    };
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return messages.size();
  }

  std::mutex mutex;
  std::vector<std::string> messages;
};

// The writing end stays open: a detached thread may still use it.
struct Pipe {
  Pipe() {
    std::signal(SIGPIPE, SIG_IGN);  // as Logs does
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() { close_reader(); }
  void close_reader() {
    if (ends[0] >= 0) ::close(ends[0]);
    ends[0] = -1;
  }

  int ends[2] = {-1, -1};
};

TEST(LogWriter, WritesLinesInOrder) {
  const TempDir folder;
  {
    LogWriter log = LogWriter::to_file(folder / "log");
    for (int i = 0; i < 3; ++i)
      log.write(std::to_string(i));
  }
  EXPECT_EQ(text_of(folder / "log"), "0\n1\n2\n");
  LogWriter::to_file(folder / "log").write("appended");
  EXPECT_EQ(text_of(folder / "log"), "0\n1\n2\nappended\n");
  EXPECT_THROW(LogWriter::to_file("/nowhere/at/all"), Error);
}

TEST(LogWriter, APausedReaderCostsLinesAndNoTime) {
  const Pipe pipe;
  const auto problems = std::make_shared<Problems>();  // also of the detached thread
  const auto start = Clock::now();
  {
    LogWriter log = LogWriter::to_descriptor(
        pipe.ends[1], "a pipe",
        [problems](const std::string& message) { problems->callback()(message); }, 100'000);
    for (int i = 0; i < 1000; ++i)
      log.write(std::string(1000, 'x'));
    EXPECT_GT(log.num_dropped(), 500U);
    EXPECT_EQ(problems->count(), 1U) << "reported once";
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10)) << "the end does not wait for a reader";
}

TEST(LogWriter, AReaderThatLeavesIsCountedAndReportedOnce) {
  Pipe pipe;
  Problems problems;
  LogWriter log = LogWriter::to_descriptor(pipe.ends[1], "a pipe", problems.callback());
  pipe.close_reader();
  for (int i = 0; i < 5; ++i)
    log.write("line");
  EXPECT_TRUE(eventually([&] { return log.num_dropped() == 5; }));
  EXPECT_EQ(problems.count(), 1U);
  EXPECT_EQ(problems.messages[0], "a pipe: cannot write, lines are dropped: Broken pipe");
}

TEST(LogWriter, AFullDiskIsCountedAndReportedOnce) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  Problems problems;
  LogWriter log = LogWriter::to_file("/dev/full", problems.callback());
  for (int i = 0; i < 5; ++i)
    log.write("line");
  EXPECT_TRUE(eventually([&] { return log.num_dropped() == 5; }));
  EXPECT_EQ(problems.count(), 1U);
  EXPECT_EQ(problems.messages[0],
            "/dev/full: cannot write, lines are dropped: No space left on device");
}

TEST(LogWriter, ReopensTheFileAfterARotation) {
  const TempDir folder;
  Problems problems;
  {
    LogWriter log = LogWriter::to_file(folder / "log", problems.callback());
    log.write("before");
    EXPECT_TRUE(eventually([&] { return text_of(folder / "log") == "before\n"; }));
    std::filesystem::rename(folder / "log", folder / "log.1");
    log.reopen();
    log.write("after");
  }
  EXPECT_EQ(text_of(folder / "log.1"), "before\n");
  EXPECT_EQ(text_of(folder / "log"), "after\n");
  EXPECT_EQ(problems.count(), 0U);
}

TEST(LogWriter, KeepsTheOldFileWhenItCannotBeReopened) {
  const TempDir folder;
  Problems problems;
  std::filesystem::create_directory(folder / "logs");
  LogWriter log = LogWriter::to_file(folder / "logs/log", problems.callback());
  std::filesystem::rename(folder / "logs", folder / "moved");
  log.reopen();
  log.write("still here");
  EXPECT_TRUE(eventually([&] { return text_of(folder / "moved/log") == "still here\n"; }));
  EXPECT_EQ(problems.count(), 1U);
}

TEST(Logs, CountsDroppedLinesPerLog) {
  const TempDir folder;
  const Logs logs({.access_path = folder / "log"});
  const std::string text = logs.metrics_text();
  for (const char* line : {"graft:log_lines_dropped_total{log=\"stdout\"} 0\n",
                           "graft:log_lines_dropped_total{log=\"stderr\"} 0\n",
                           "graft:log_lines_dropped_total{log=\"access\"} 0\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  EXPECT_FALSE(Logs().has_access_log());
  EXPECT_THROW(Logs({.access_path = "/nowhere/at/all"}), Error);
}

TEST(Logs, LevelsHaveNames) {
  EXPECT_EQ(parse_log_level("error"), LogLevel::Error);
  EXPECT_EQ(parse_log_level("debug"), LogLevel::Debug);
  EXPECT_FALSE(parse_log_level("verbose"));
  const Logs logs({.level = LogLevel::Warning});
  EXPECT_TRUE(logs.writes(LogLevel::Error));
  EXPECT_TRUE(logs.writes(LogLevel::Warning));
  EXPECT_FALSE(logs.writes(LogLevel::Info));
}

}  // namespace
}  // namespace graft::server
