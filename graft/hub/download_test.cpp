// Downloads from a local server with every fault that a network has.

#include "graft/hub/download.h"

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/hub/file_lock.h"
#include "graft/hub/http/http.h"
#include "graft/hub/part_file.h"
#include "graft/testing/hub/hub_peer.h"

namespace graft::hub {
namespace {

namespace fs = std::filesystem;

using testing::HttpPeer;
using testing::PeerRequest;
using testing::PeerResponse;

// Three and a half chunks of a download.
std::string large_content() {
  std::string content(PartFile::kChunkBytes * 7 / 2, '\0');
  std::uint32_t state = 1;
  for (char& c : content) {
    state = state * 1664525U + 1013904223U;
    c = static_cast<char>(state >> 24U);
  }
  return content;
}

const std::string& large() {
  static const std::string kContent = large_content();
  return kContent;
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class DownloadTest : public ::testing::Test {
 protected:
  // The number of requests for a range begins at 1 with the probe.
  void serve(std::function<PeerResponse(const PeerRequest& request, int number)> answer) {
    peer_ =
        std::make_unique<HttpPeer>([this, answer = std::move(answer)](const PeerRequest& request) {
          return answer(request, ++num_requests_);
        });
  }

  DownloadJob job() const {
    return {.subject = "org/repo/model.gguf",
            .url = peer_->url() + "/model.gguf",
            .size = large().size(),
            .hash = sha256_or_none(testing::sha256_hex(large())),
            .path = folder_ / "sub/model.gguf"};
  }

  DownloadOptions options() {
    DownloadOptions options;
    options.http.first_delay_seconds = 0.01;
    options.http.stall_seconds = 2;
    options.on_bytes = [this](std::uint64_t bytes) { num_bytes_ += bytes; };
    options.on_note = [this](const std::string& line) { notes_ += line + "\n"; };
    return options;
  }

  std::string error_of(const DownloadJob& job, const DownloadOptions& given) {
    try {
      download(job, given);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TempDir folder_;
  std::unique_ptr<HttpPeer> peer_;
  std::atomic<int> num_requests_ = 0;
  std::uint64_t num_bytes_ = 0;
  std::string notes_;
};

TEST(CertificateFile, ComesFromTheEnvironmentFirst) {
  const TempDir folder;
  std::ofstream(folder / "mine.pem") << "certificates";
  ASSERT_EQ(::unsetenv("CURL_CA_BUNDLE"), 0);
  ASSERT_EQ(::setenv("SSL_CERT_FILE", (folder / "mine.pem").c_str(), 1), 0);
  EXPECT_EQ(certificate_file(), (folder / "mine.pem").string());
  ASSERT_EQ(::setenv("CURL_CA_BUNDLE", (folder / "absent.pem").c_str(), 1), 0);
  EXPECT_THROW(certificate_file(), Error);
  ASSERT_EQ(::unsetenv("CURL_CA_BUNDLE"), 0);
  ASSERT_EQ(::unsetenv("SSL_CERT_FILE"), 0);
  const std::string found = certificate_file();
  EXPECT_TRUE(found.empty() || fs::exists(found)) << found;
}

TEST_F(DownloadTest, FetchesRangesAndChecksTheHash) {
  serve([](const PeerRequest&, int) { return PeerResponse{.body = large()}; });
  download(job(), options());
  EXPECT_EQ(read(job().path), large());
  EXPECT_EQ(num_bytes_, large().size());
  EXPECT_EQ(num_requests_, 5);  // the probe and four chunks
  for (const auto& request : peer_->requests())
    EXPECT_TRUE(request.headers.contains("range"));
  // Nothing is left beside the file, and a second call requests nothing.
  EXPECT_EQ(std::distance(fs::directory_iterator(job().path.parent_path()), {}), 1);
  download(job(), options());
  EXPECT_EQ(num_requests_, 5);
}

TEST_F(DownloadTest, RetriesBrokenConnectionsAndBusyServers) {
  serve([](const PeerRequest&, int number) {
    PeerResponse response = {.body = large()};
    if (number == 1) response = {.status = 503};
    if (number == 2) response = {.status = 429, .headers = {"Retry-After: 0"}};
    if (number == 4) response.break_after = 1'000'000;
    if (number == 6) response.break_after = 0;
    return response;
  });
  download(job(), options());
  EXPECT_EQ(read(job().path), large());
  EXPECT_EQ(num_bytes_, large().size());  // a retry continues where the connection broke
}

TEST_F(DownloadTest, ContinuesAfterAFailure) {
  // After the probe and two chunks the server is gone.
  serve([](const PeerRequest&, int number) {
    if (number > 3 && number <= 5) return PeerResponse{.status = 500};
    return PeerResponse{.body = large()};
  });
  DownloadOptions few = options();
  few.num_connections = 1;
  few.http.max_attempts = 2;
  EXPECT_NE(error_of(job(), few).find("status 500"), std::string::npos);
  EXPECT_FALSE(fs::exists(job().path));
  EXPECT_GT(partial_bytes(job().path), PartFile::kChunkBytes);
  const int before = num_requests_;
  num_bytes_ = 0;
  download(job(), options());
  EXPECT_EQ(num_requests_ - before, 3);  // the probe and the two missing chunks
  EXPECT_EQ(num_bytes_, large().size());
  EXPECT_NE(notes_.find("continues at 16.0 MiB"), std::string::npos) << notes_;
  EXPECT_EQ(read(job().path), large());
}

TEST_F(DownloadTest, BeginsAgainWhenTheFileHasChanged) {
  serve([](const PeerRequest&, int number) {
    if (number == 3) return PeerResponse{.status = 404};
    return PeerResponse{.body = large()};
  });
  DownloadJob old = job();
  old.hash = sha256_or_none(std::string(64, 'a'));
  DownloadOptions one = options();
  one.num_connections = 1;
  // The chunk fails, is requested again from the hub, and the whole file has another hash.
  EXPECT_NE(error_of(old, one).find("SHA-256 is "), std::string::npos);
  num_bytes_ = 0;
  download(job(), options());
  EXPECT_EQ(num_bytes_, large().size());
  EXPECT_EQ(read(job().path), large());
}

TEST_F(DownloadTest, RejectsAWrongHashAndRemovesThePart) {
  serve([](const PeerRequest&, int) { return PeerResponse{.body = large()}; });
  DownloadJob wrong = job();
  wrong.hash = sha256_or_none(std::string(64, 'b'));
  const std::string message = error_of(wrong, options());
  EXPECT_NE(message.find("SHA-256 is " + testing::sha256_hex(large()) + ", expected bbbb"),
            std::string::npos)
      << message;
  EXPECT_FALSE(fs::exists(job().path));
  EXPECT_EQ(partial_bytes(job().path), 0U);
}

TEST_F(DownloadTest, ChecksGitHashesOfSmallFiles) {
  serve([](const PeerRequest&, int) { return PeerResponse{.body = "{}"}; });
  DownloadJob small = job();
  small.size = 2;
  small.hash = git_sha1_or_none(testing::git_sha1_hex("{}"));
  download(small, options());
  EXPECT_EQ(read(small.path), "{}");
  small.path = folder_ / "other.json";
  small.hash = git_sha1_or_none(std::string(40, 'c'));
  EXPECT_NE(error_of(small, options()).find("git SHA-1 is "), std::string::npos);
  EXPECT_FALSE(fs::exists(small.path));
  small.size = 3;
  EXPECT_NE(error_of(small, options()).find("received 2 of 3 bytes"), std::string::npos);
  small.size = 1;
  EXPECT_NE(error_of(small, options()).find("larger than the announced 1 bytes"),
            std::string::npos);
}

TEST_F(DownloadTest, FetchesInOneRequestFromAServerWithoutRanges) {
  serve([](const PeerRequest&, int number) {
    PeerResponse response = {.body = large(), .has_ranges = false};
    if (number == 2) response.break_after = 2'000'000;  // begins again
    return response;
  });
  DownloadJob unknown = job();
  unknown.size = 0;
  download(unknown, options());
  EXPECT_EQ(read(job().path), large());
}

TEST_F(DownloadTest, ReportsStatuses) {
  for (const auto& [status, part] :
       {std::pair{401, "access denied (status 401)"}, std::pair{403, "access denied (status 403)"},
        std::pair{404, "not found (status 404)"}, std::pair{429, "too many requests"},
        std::pair{418, "status 418"}}) {
    serve([status = status](const PeerRequest&, int) { return PeerResponse{.status = status}; });
    DownloadOptions few = options();
    few.http.max_attempts = 2;
    const std::string message = error_of(job(), few);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST_F(DownloadTest, DoesNotWaitForHours) {
  serve([](const PeerRequest&, int) {
    return PeerResponse{.status = 503, .headers = {"Retry-After: 7200"}};
  });
  EXPECT_NE(error_of(job(), options()).find("asks to wait 7200 s"), std::string::npos);
}

TEST_F(DownloadTest, ReportsAnUnreachableServer) {
  serve([](const PeerRequest&, int) { return PeerResponse{}; });
  DownloadJob unreachable = job();
  peer_.reset();
  DownloadOptions few = options();
  few.http.max_attempts = 2;
  const std::string message = error_of(unreachable, few);
  EXPECT_NE(message.find("(2 attempts)"), std::string::npos) << message;
}

TEST_F(DownloadTest, RejectsASizeOtherThanTheHubs) {
  serve([](const PeerRequest&, int) { return PeerResponse{.body = large()}; });
  DownloadJob other = job();
  other.size = large().size() + 1;
  EXPECT_NE(error_of(other, options()).find("the hub lists"), std::string::npos);
}

TEST_F(DownloadTest, ChecksTheFreeSpaceFirst) {
  serve([](const PeerRequest&, int) { return PeerResponse{.body = large()}; });
  DownloadOptions full = options();
  full.free_bytes = [](const fs::path&) { return std::uint64_t{1} << 20U; };
  const std::string message = error_of(job(), full);
  EXPECT_NE(message.find("needs 28.0 MiB"), std::string::npos) << message;
  EXPECT_NE(message.find("has 1.0 MiB free"), std::string::npos) << message;
  EXPECT_EQ(num_requests_, 1);
}

// A limit on the size of files fails a write like a full disk.
TEST_F(DownloadTest, ReportsAFailedWriteAndKeepsThePart) {
  serve([](const PeerRequest&, int) { return PeerResponse{.body = large()}; });
  {
    PartFile part(folder_ / "p", 1 << 20, "x");
    rlimit old = {};
    ::getrlimit(RLIMIT_FSIZE, &old);
    const auto before = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small = {.rlim_cur = 1000, .rlim_max = old.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    std::string message;
    try {
      part.write(0, std::vector<std::byte>(5000));
    } catch (const Error& error) {
      message = error.what();
    }
    ::setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, before);
    EXPECT_NE(message.find("cannot write"), std::string::npos) << message;
    EXPECT_NE(message.find("File too large"), std::string::npos) << message;
  }
  EXPECT_TRUE(fs::exists(folder_ / "p"));
}

TEST_F(DownloadTest, GivesUpOnAServerThatStalls) {
  serve([](const PeerRequest&, int) { return PeerResponse{.body = large(), .pause_ms = 3000}; });
  DownloadOptions few = options();
  few.http.stall_seconds = 1;
  few.http.max_attempts = 1;
  EXPECT_NE(error_of(job(), few).find("Timeout"), std::string::npos);
}

TEST_F(DownloadTest, WaitsForAnotherProcessThenUsesItsFile) {
  serve([](const PeerRequest&, int) { return PeerResponse{.body = large()}; });
  fs::create_directories(job().path.parent_path());
  auto held = std::make_unique<FileLock>(job().path.string() + ".lock", [] {});
  std::atomic<bool> has_waited = false;
  std::jthread other([&] {
    while (!has_waited)
      std::this_thread::yield();
    std::ofstream(job().path, std::ios::binary) << large();
    held.reset();
  });
  DownloadOptions waiting = options();
  waiting.on_note = [&](const std::string& line) {
    notes_ = line;
    has_waited = true;
  };
  download(job(), waiting);
  other.join();
  EXPECT_TRUE(has_waited);
  EXPECT_NE(notes_.find("waiting for another process"), std::string::npos);
  EXPECT_EQ(num_requests_, 0);
}

TEST_F(DownloadTest, StopsOnRequestAndKeepsThePart) {
  serve([](const PeerRequest&, int) { return PeerResponse{.body = large(), .pause_ms = 1}; });
  std::stop_source stop;
  DownloadOptions stoppable = options();
  stoppable.num_connections = 1;
  stoppable.http.stop = stop.get_token();
  std::uint64_t received = 0;
  stoppable.on_bytes = [&](std::uint64_t bytes) {
    received += bytes;
    if (received > PartFile::kChunkBytes + 1000) stop.request_stop();
  };
  EXPECT_THROW(download(job(), stoppable), Cancelled);
  EXPECT_FALSE(fs::exists(job().path));
  download(job(), options());
  EXPECT_NE(notes_.find("continues at 8.0 MiB"), std::string::npos) << notes_;
  EXPECT_EQ(read(job().path), large());
}

TEST(PartFile, DoesNotFollowLinks) {
  const TempDir folder;
  fs::create_symlink(folder / "elsewhere", folder / "p");
  EXPECT_THROW(PartFile(folder / "p", 10, "x"), Error);
  EXPECT_FALSE(fs::exists(folder / "elsewhere"));
}

TEST(ContentRange, IsReadStrictly) {
  const auto range = parse_content_range("bytes 5-9/20");
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->begin, 5U);
  EXPECT_EQ(range->end, 10U);
  EXPECT_EQ(range->total, 20U);
  for (const char* text : {"", "bytes 5-9", "bytes 9-5/20", "bytes 0-20/20", "bytes */20",
                           "bytes 0-1/99999999999999999999999", "items 0-1/2", "bytes 0-1/2x"})
    EXPECT_EQ(parse_content_range(text), std::nullopt) << text;
}

}  // namespace
}  // namespace graft::hub
