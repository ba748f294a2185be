// Hugging Face's cache folder: models--ORG--REPO/{blobs,refs,snapshots}, shared with
// huggingface_hub and the programs that use it. Snapshots hold symbolic links to blobs.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "graft/hub/model_ref.h"
#include "graft/hub/remote_files.h"

namespace graft::hub {

class HfCache {
 public:
  HfCache(std::filesystem::path cache, const std::string& repo);

  std::filesystem::path blob_path(const RemoteFile& file) const;
  std::filesystem::path lock_path(const RemoteFile& file) const;
  std::filesystem::path snapshot(const std::string& commit) const;
  const std::filesystem::path& folder() const { return folder_; }

  // Links the blobs of a commit under the names of the files, and points the revision to it.
  void link(const std::string& commit,
            const std::vector<RemoteFile>& files,
            const std::string& revision) const;

  // The commit that a branch or tag had when it was downloaded, or the revision itself when it is a
  // commit; empty: unknown.
  std::string commit_of(const std::string& revision) const;
  // The files of a snapshot whose blobs exist; sizes without hashes.
  std::vector<RemoteFile> files_of(const std::string& commit) const;
  std::vector<std::string> commits() const;

  // The path to open: a GGUF file or the snapshot. nullopt: not downloaded, or not completely.
  std::optional<std::filesystem::path> find(const ModelRef& ref) const;

  // Removes these files of all snapshots, and the blobs that nothing links to any more. Returns the
  // bytes removed.
  std::uint64_t remove(const std::vector<std::string>& paths) const;

 private:
  std::filesystem::path cache_;
  std::string name_;  // models--ORG--REPO
  std::filesystem::path folder_;
};

// "org/repo" of every repository in the cache, sorted.
std::vector<std::string> cached_repos(const std::filesystem::path& cache);

// All weight files that the index lists exist; true for a single model.safetensors.
bool is_complete_folder(const std::filesystem::path& folder);

}  // namespace graft::hub
