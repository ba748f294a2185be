// The folder of the disk tier: DIR/xx/KEY.kv, where xx are the first digits of KEY. Other files are
// neither read nor removed. Several processes may use a folder at once: files appear complete under
// their name, and disappear only between reads.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "graft/engine/tiers/block_key.h"
#include "graft/engine/tiers/tier_entry.h"

namespace graft::engine {

struct DiskFile {
  BlockKey key;
  std::uint64_t bytes = 0;
  std::int64_t used_ns = 0;  // last use, nanoseconds since 1970
};

// Creates the folder for its owner only. Throws Error when it cannot be created or used, belongs to
// another user, or others may write to it: their files could make the model continue another text.
void create_disk_folder(const std::filesystem::path& dir);

std::filesystem::path block_path(const std::filesystem::path& dir, const BlockKey& key);

// All blocks. Also removes partial files that a killed process has left behind. A folder that does
// not exist is empty.
std::vector<DiskFile> scan_folder(const std::filesystem::path& dir);

enum class ReadResult : std::uint8_t {
  Ok,
  Missing,
  Damaged,  // incomplete, changed, or not a block of this version
  Failed,   // the file system reports an error
};
// Reads a block to `memory` (see parse_entry()) and marks it as used now. `error` explains Damaged
// and Failed.
ReadResult read_block(const std::filesystem::path& dir,
                      const BlockKey& key,
                      TierEntry& entry,
                      std::string& error,
                      BlockMemory* memory = nullptr);

// The same without marking it.
ReadResult check_block(const std::filesystem::path& dir,
                       const BlockKey& key,
                       TierEntry& entry,
                       std::string& error);

// Writes a temporary file and renames it. Returns an errno value, 0 on success.
int write_block(const std::filesystem::path& dir, const TierEntry& entry);

// Held while blocks are evicted, so that processes do not evict for the same shortage twice. The
// system frees it when a process dies.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& dir);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

  bool is_held() const { return is_held_; }  // false: another process has it

 private:
  int fd_ = -1;
  bool is_held_ = false;
};

}  // namespace graft::engine
