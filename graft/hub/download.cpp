#include "graft/hub/download.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include <sys/stat.h>

#include "graft/base/error.h"
#include "graft/base/system/new_file.h"
#include "graft/base/text/units.h"
#include "graft/hub/file_lock.h"
#include "graft/hub/part_file.h"

namespace graft::hub {
namespace {

namespace fs = std::filesystem;

fs::path part_path(const fs::path& path) {
  return path.string() + ".part";
}

std::uint64_t free_bytes_of(const fs::path& folder) {
  // The folder may not exist yet: its parent is on the same file system.
  fs::path existing = folder;
  std::error_code error;
  while (!existing.empty() && existing != existing.root_path() && !fs::exists(existing, error))
    existing = existing.parent_path();
  const fs::space_info space = fs::space(existing.empty() ? "." : existing, error);
  return error ? ~std::uint64_t{0} : space.available;
}

// What the server says about a file.
struct Probe {
  std::string url = {};  // after redirects
  std::uint64_t size = 0;
  std::string etag = {};
  bool has_ranges = false;
};

// Requests one byte: signed URLs of content networks allow GET, not HEAD.
Probe probe(HttpClient& client, const DownloadJob& job) {
  const HttpResponse response = client.get({.url = job.url,
                                            .headers = job.headers,
                                            .range = ByteRange{.begin = 0, .end = 1},
                                            .sink = [](std::span<const std::byte>) {}});
  if (response.status == 416) return {.url = response.url};  // an empty file
  check_status(response, job.subject);
  Probe found = {.url = response.url, .etag = response.header("etag")};
  if (const auto range = parse_content_range(response.header("content-range"))) {
    found.size = range->total;
    found.has_ranges = response.status == 206;
  }
  return found;
}

// Fetches the missing chunks of a part with several connections.
class ChunkedDownload {
 public:
  ChunkedDownload(const DownloadJob& job,
                  const DownloadOptions& options,
                  std::string url,
                  PartFile& part)
      : job_(job), options_(options), part_(part), url_(std::move(url)) {}

  void run() {
    std::vector<std::jthread> threads;
    const std::size_t count =
        std::min<std::size_t>(std::max(options_.num_connections, 1), part_.num_chunks());
    for (std::size_t i = 0; i < count; ++i)
      threads.emplace_back([this] { work(); });
    threads.clear();  // joins
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work() {
    try {
      HttpClient client(options_.http);
      while (const auto chunk = take_chunk())
        fetch(client, *chunk);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  // nullopt: none is left, or another connection has failed.
  std::optional<std::size_t> take_chunk() {
    const std::lock_guard lock(mutex_);
    while (next_ < part_.num_chunks() && part_.is_done(next_))
      ++next_;
    if (error_ || next_ == part_.num_chunks()) return std::nullopt;
    return next_++;
  }

  std::string current_url() {
    const std::lock_guard lock(mutex_);
    return url_;
  }

  // Signed URLs expire in hours: the hub issues another one.
  void renew_url(HttpClient& client, const std::string& expired) {
    if (current_url() != expired) return;
    const Probe found = probe(client, job_);
    const std::lock_guard lock(mutex_);
    url_ = found.url;
  }

  void fetch(HttpClient& client, std::size_t chunk) {
    for (bool is_renewed = false;; is_renewed = true) {
      const std::string url = current_url();
      const int status = fetch_from(client, url, chunk);
      if (status == 206) return;
      if (!is_renewed && (status == 401 || status == 403 || status == 404)) {
        renew_url(client, url);
        continue;
      }
      if (status == 200) fail(job_.subject, ": the server stopped to support ranges");
      check_status({.status = status}, job_.subject);
    }
  }

  int fetch_from(HttpClient& client, const std::string& url, std::size_t chunk) {
    const std::uint64_t begin = part_.chunk_begin(chunk);
    const std::uint64_t end = part_.chunk_end(chunk);
    std::uint64_t offset = begin;
    // The hub's token is for the hub, not for the host that it redirects to.
    const bool is_hub = url == job_.url;
    const HttpResponse response =
        client.get({.url = url,
                    .headers = is_hub ? job_.headers : std::vector<std::string>(),
                    .range = ByteRange{.begin = begin, .end = end},
                    .sink = [&](std::span<const std::byte> bytes) {
                      part_.write(offset, bytes);
                      offset += bytes.size();
                      count(bytes.size());
                    }});
    if (response.status != 206) return response.status;
    if (offset != end) {
      fail(job_.subject, ": the server sent ", offset - begin, " of the ", end - begin,
           " bytes from ", begin);
    }
    const std::lock_guard lock(mutex_);
    part_.mark_done(chunk);
    return response.status;
  }

  void count(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (options_.on_bytes) options_.on_bytes(bytes);
  }

  const DownloadJob& job_;
  const DownloadOptions& options_;
  PartFile& part_;
  std::mutex mutex_;
  std::string url_;
  std::size_t next_ = 0;
  std::exception_ptr error_;
};

void check_hash(const DownloadJob& job, const fs::path& path, const DownloadOptions& options) {
  if (job.hash.kind == ExpectedHash::Kind::None) return;
  const std::string hex = hash_file(path, job.hash.kind, [&](std::uint64_t bytes) {
    if (options.http.stop.stop_requested()) throw Cancelled();
    if (options.on_checked) options.on_checked(bytes);
  });
  if (hex == job.hash.hex) return;
  fail(job.subject, ": ", job.hash.kind == ExpectedHash::Kind::Sha256 ? "SHA-256" : "git SHA-1",
       " is ", hex, ", expected ", job.hash.hex,
       "; the file was removed: download it again, or report it to the hub");
}

void download_chunked(const DownloadJob& job, const DownloadOptions& options, const Probe& found) {
  const std::string identity =
      job.hash.kind == ExpectedHash::Kind::None ? found.etag : job.hash.hex;
  PartFile part(part_path(job.path), found.size, identity);
  const std::uint64_t done = part.done_bytes();
  check_free_space(job.path.parent_path(), found.size - done, job.subject, options);
  if (done > 0 && options.on_note)
    options.on_note(str(job.subject, ": continues at ", bytes_text(done)));
  if (done > 0 && options.on_bytes) options.on_bytes(done);
  ChunkedDownload(job, options, found.url, part).run();
  try {
    check_hash(job, part.path(), options);
  } catch (const Cancelled&) {
    throw;
  } catch (const Error&) {
    part.discard();
    throw;
  }
  part.finish(job.path);
}

// In one request: small files, and servers without ranges. Nothing stays of a failed one.
void download_whole(const DownloadJob& job, const DownloadOptions& options) {
  const fs::path partial = part_path(job.path);
  HttpClient client(options.http);
  auto file = std::make_unique<NewFile>(partial);
  const HttpResponse response =
      client.get({.url = job.url,
                  .headers = job.headers,
                  .sink =
                      [&](std::span<const std::byte> bytes) {
                        if (job.size > 0 && file->bytes() + bytes.size() > job.size)
                          fail(job.subject, ": larger than the announced ", job.size, " bytes");
                        file->append(bytes);
                        if (options.on_bytes) options.on_bytes(bytes.size());
                      },
                  .restart = [&] { file = std::make_unique<NewFile>(partial); }});
  check_status(response, job.subject);
  if (job.size > 0 && file->bytes() != job.size)
    fail(job.subject, ": received ", file->bytes(), " of ", job.size, " bytes");
  file->finish();
  try {
    check_hash(job, partial, options);
  } catch (...) {
    std::error_code ignored;
    fs::remove(partial, ignored);
    throw;
  }
  std::error_code error;
  fs::rename(partial, job.path, error);
  if (error) fail(partial.string(), ": cannot be renamed: ", error.message());
}

bool is_complete(const DownloadJob& job) {
  std::error_code error;
  if (!fs::is_regular_file(job.path, error)) return false;
  return job.size == 0 || fs::file_size(job.path, error) == job.size;
}

void fetch_file(const DownloadJob& job, const DownloadOptions& options) {
  if (job.size > 0 && job.size <= options.max_single_bytes) {
    check_free_space(job.path.parent_path(), job.size, job.subject, options);
    return download_whole(job, options);
  }
  HttpClient client(options.http);
  const Probe found = probe(client, job);
  if (!found.has_ranges || found.size == 0) return download_whole(job, options);
  if (job.size > 0 && found.size != job.size)
    fail(job.subject, ": the server has ", found.size, " bytes, the hub lists ", job.size);
  download_chunked(job, options, found);
}

}  // namespace

void check_free_space(const fs::path& folder,
                      std::uint64_t needed,
                      const std::string& subject,
                      const DownloadOptions& options) {
  const std::uint64_t free =
      options.free_bytes ? options.free_bytes(folder) : free_bytes_of(folder);
  if (needed <= free) return;
  fail(subject, ": needs ", bytes_text(needed), ", ", folder.string(), " has ", bytes_text(free),
       " free");
}

std::uint64_t partial_bytes(const fs::path& path) {
  struct stat status = {};
  if (::lstat(part_path(path).c_str(), &status) != 0) return 0;
  constexpr std::uint64_t kStatBlock = 512;  // the unit of st_blocks; the part is sparse
  return static_cast<std::uint64_t>(status.st_blocks) * kStatBlock;
}

void download(const DownloadJob& job, const DownloadOptions& options) {
  const auto finish = [&] {
    if (!options.on_bytes) return;
    std::error_code error;
    const std::uintmax_t size = fs::file_size(job.path, error);
    if (!error) options.on_bytes(size);
  };
  if (is_complete(job)) return finish();
  std::error_code error;
  fs::create_directories(job.path.parent_path(), error);
  if (error) fail(job.path.parent_path().string(), ": cannot be created: ", error.message());
  const fs::path lock_path = job.lock.empty() ? fs::path(job.path.string() + ".lock") : job.lock;
  const FileLock lock(
      lock_path,
      [&] {
        if (options.on_note)
          options.on_note(str(job.subject, ": waiting for another process that downloads it"));
      },
      options.http.stop);
  if (is_complete(job)) return finish();
  fetch_file(job, options);
  // A process that waits for it finds the complete file.
  fs::remove(lock_path, error);
}

}  // namespace graft::hub
