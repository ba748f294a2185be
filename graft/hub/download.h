// Downloads one file: in parallel ranges, continuing an earlier part, checked against its hash, one
// process at a time. The path holds a complete and checked file or none.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "graft/hub/file_hash.h"
#include "graft/hub/http/http.h"

namespace graft::hub {

struct DownloadJob {
  std::string subject = {};  // for messages: "org/repo/model.gguf"
  std::string url = {};
  std::vector<std::string> headers = {};  // "Authorization: Bearer …"
  std::uint64_t size = 0;                 // 0: unknown until the server tells
  ExpectedHash hash = {};
  std::filesystem::path path = {};
  std::filesystem::path lock = {};  // empty: the path with ".lock"
};

struct DownloadOptions {
  HttpConfig http = {};
  int num_connections = 4;
  // Files up to this size are fetched in one request.
  std::uint64_t max_single_bytes = std::uint64_t{8} << 20U;
  // Called with new bytes, also with those of an earlier part; by one thread at a time.
  std::function<void(std::uint64_t bytes)> on_bytes = {};
  // Called with each piece of a file whose hash is computed.
  std::function<void(std::uint64_t bytes)> on_checked = {};
  std::function<void(const std::string& line)> on_note = {};
  // Free bytes of the file system of a folder; empty: asks the system.
  std::function<std::uint64_t(const std::filesystem::path& folder)> free_bytes = {};
};

// Returns at once when the file is complete. Throws Error; Cancelled. The part of a failed download
// stays and is continued by the next one, except after a wrong hash.
void download(const DownloadJob& job, const DownloadOptions& options);

// Throws Error when the file system of the folder has fewer free bytes than a download needs.
void check_free_space(const std::filesystem::path& folder,
                      std::uint64_t needed,
                      const std::string& subject,
                      const DownloadOptions& options);

// Bytes of this file that an earlier, interrupted download has left.
std::uint64_t partial_bytes(const std::filesystem::path& path);

}  // namespace graft::hub
