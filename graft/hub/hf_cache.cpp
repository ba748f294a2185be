#include "graft/hub/hf_cache.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/base/text/json.h"

namespace graft::hub {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRepoPrefix = "models--";

std::string cache_name(std::string repo) {
  const std::size_t slash = repo.find('/');
  if (slash != std::string::npos) repo.replace(slash, 1, "--");
  return kRepoPrefix + repo;
}

// Replaces a link of another commit; other programs may create the same one at the same time.
void link_file(const fs::path& target, const fs::path& link) {
  std::error_code error;
  fs::create_directories(link.parent_path(), error);
  if (error) fail(link.parent_path().string(), ": cannot be created: ", error.message());
  if (fs::is_symlink(link, error) && fs::read_symlink(link, error) == target) return;
  const fs::path temporary = str(link.string(), ".", ::getpid(), ".link");
  fs::remove(temporary, error);
  fs::create_symlink(target, temporary, error);
  if (error) fail(temporary.string(), ": cannot be created: ", error.message());
  fs::rename(temporary, link, error);
  if (error) fail(link.string(), ": cannot be created: ", error.message());
}

bool is_commit(const std::string& text) {
  return git_sha1_or_none(text).kind != ExpectedHash::Kind::None;
}

}  // namespace

HfCache::HfCache(fs::path cache, const std::string& repo)
    : cache_(std::move(cache)), name_(cache_name(repo)), folder_(cache_ / name_) {}

fs::path HfCache::blob_path(const RemoteFile& file) const {
  GRAFT_CHECK(!file.hash.hex.empty(), file.path);
  return folder_ / "blobs" / file.hash.hex;
}

fs::path HfCache::lock_path(const RemoteFile& file) const {
  return cache_ / ".locks" / name_ / (file.hash.hex + ".lock");
}

fs::path HfCache::snapshot(const std::string& commit) const {
  return folder_ / "snapshots" / commit;
}

void HfCache::link(const std::string& commit,
                   const std::vector<RemoteFile>& files,
                   const std::string& revision) const {
  for (const RemoteFile& file : files) {
    const fs::path link = snapshot(commit) / file.path;
    link_file(blob_path(file).lexically_relative(link.parent_path()), link);
  }
  if (revision == commit) return;
  const fs::path ref = folder_ / "refs" / revision;
  std::error_code error;
  fs::create_directories(ref.parent_path(), error);
  std::ofstream out(ref, std::ios::trunc);
  out << commit;
  if (!out.flush()) fail(ref.string(), ": cannot be written");
}

std::string HfCache::commit_of(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  std::ifstream in(folder_ / "refs" / revision);
  std::string line;
  std::getline(in, line);
  std::string commit(trimmed(line, " \t\r\n"));
  return is_commit(commit) ? commit : "";
}

std::vector<RemoteFile> HfCache::files_of(const std::string& commit) const {
  std::vector<RemoteFile> files;
  const fs::path root = snapshot(commit);
  std::error_code error;
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code missing;
    if (!fs::is_regular_file(it->path(), missing)) continue;
    files.push_back({.path = it->path().lexically_relative(root).string(),
                     .size = fs::file_size(it->path(), missing)});
  }
  std::ranges::sort(files, {}, &RemoteFile::path);
  return files;
}

std::vector<std::string> HfCache::commits() const {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / "snapshots", error))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::optional<fs::path> HfCache::find(const ModelRef& ref) const {
  const std::string commit = commit_of(ref.revision.empty() ? "main" : ref.revision);
  if (commit.empty()) return std::nullopt;
  try {
    const ChosenFiles chosen = choose_files(files_of(commit), ref.selector, ref.repo);
    if (!chosen.main.empty()) return snapshot(commit) / chosen.main;
    if (is_complete_folder(snapshot(commit))) return snapshot(commit);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // Another file of the repository was downloaded, or a part of it.
  }
  return std::nullopt;
}

std::uint64_t HfCache::remove(const std::vector<std::string>& paths) const {
  std::set<fs::path> unused;
  std::set<fs::path> used;
  std::error_code error;
  for (const std::string& commit : commits()) {
    for (const RemoteFile& file : files_of(commit)) {
      const fs::path link = snapshot(commit) / file.path;
      const fs::path blob = fs::canonical(link, error);
      const bool goes = std::ranges::find(paths, file.path) != paths.end();
      (goes ? unused : used).insert(blob);
      if (goes && blob != link) fs::remove(link, error);
    }
  }
  std::uint64_t bytes = 0;
  const fs::path own = fs::canonical(folder_, error);
  for (const fs::path& blob : unused) {
    // A link may point out of the cache: that file is not ours.
    const bool is_inside = blob.string().starts_with(own.string() + "/");
    if (used.contains(blob) || !is_inside) continue;
    const std::uintmax_t size = fs::file_size(blob, error);
    if (fs::remove(blob, error)) bytes += size;
  }
  if (used.empty()) fs::remove_all(folder_, error);
  return bytes;
}

std::vector<std::string> cached_repos(const fs::path& cache) {
  std::vector<std::string> repos;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(cache, error)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with(kRepoPrefix)) continue;
    name.erase(0, std::string_view(kRepoPrefix).size());
    const std::size_t separator = name.find("--");
    if (separator != std::string::npos) name.replace(separator, 2, "/");
    repos.push_back(std::move(name));
  }
  std::ranges::sort(repos);
  return repos;
}

bool is_complete_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / "config.json", error)) return false;
  const fs::path index = folder / "model.safetensors.index.json";
  if (!fs::exists(index, error)) return fs::exists(folder / "model.safetensors", error);
  const Json json = read_json_file(index);
  if (!json.contains("weight_map") || !json["weight_map"].is_object()) return false;
  return std::ranges::all_of(json["weight_map"], [&](const Json& file) {
    return file.is_string() && fs::exists(folder / file.get<std::string>(), error);
  });
}

}  // namespace graft::hub
