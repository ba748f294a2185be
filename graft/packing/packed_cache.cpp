#include "graft/packing/packed_cache.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/stat.h>
#include <xxhash.h>

#include "graft/base/error.h"

namespace graft::packing {
namespace {

// Hash of the sizes and modification times of the files and of the list of tensors. It does not
// cover the weights: reading them would take as long as packing them.
std::uint64_t fingerprint_of(const formats::WeightSource& source) {
  std::uint64_t hash = 0;
  const auto add = [&](const void* data, std::size_t size) {
    hash = XXH3_64bits_withSeed(data, size, hash);
  };
  for (const std::filesystem::path& file : source.files()) {
    struct stat status = {};
    if (::stat(file.c_str(), &status) != 0) fail(file.string(), ": ", std::strerror(errno));
    const std::int64_t identity[] = {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
    add(identity, sizeof(identity));
  }
  for (const formats::TensorInfo& tensor : source.tensors()) {
    add(tensor.name.data(), tensor.name.size());
    const std::string_view type = name(tensor.dtype);
    add(type.data(), type.size());
    add(tensor.shape.data(), tensor.shape.size() * sizeof(std::int64_t));
  }
  return hash;
}

bool has_same_shape(const PackedTensor& tensor, const StoredMatrix& matrix) {
  return tensor.dtype == matrix.dtype && tensor.rows == matrix.rows && tensor.cols == matrix.cols;
}

}  // namespace

std::filesystem::path PackedCache::path_for(const formats::WeightSource& source) {
  return source.files().front().string() + ".graft-packed";
}

bool PackedCache::exists_for(const formats::WeightSource& source) {
  std::error_code ignored;
  const std::filesystem::path path = path_for(source);
  if (!std::filesystem::exists(path, ignored)) return false;
  try {
    const MappedFile mapped(path);
    return parse_packed(mapped.bytes(), path.string()).fingerprint == fingerprint_of(source);
  } catch (const Error&) {
    return false;
  }
}

PackedCache::PackedCache(const formats::WeightSource& source,
                         ThreadPool* pool,
                         Warn warn,
                         Options options)
    : path_(path_for(source)),
      pool_(pool),
      warn_(std::move(warn)),
      options_(std::move(options)),
      disk_source_(std::make_shared<const DiskPanels::Source>(
          DiskPanels::Source{.file = path_.string(), .read_ahead = options_.read_ahead})) {
  try {
    fingerprint_ = fingerprint_of(source);
    read_file();
  } catch (const Error& error) {
    this->warn(str(error.what(), "; the weights are packed again"));
  }
}

PackedCache::~PackedCache() = default;

void PackedCache::read_file() {
  std::error_code ignored;
  if (!std::filesystem::exists(path_, ignored)) return;
  const auto mapped = std::make_shared<const MappedFile>(path_);
  const PackedFile file = parse_packed(mapped->bytes(), path_.string());
  if (file.fingerprint != fingerprint_)
    fail(path_.string(), ": belongs to another model or to an earlier version of this one");
  for (const PackedTensor& tensor : file.tensors)
    entries_[tensor.name] = {.tensor = tensor, .owner = mapped};
}

CachedPanels PackedCache::find(const StoredMatrix& matrix) {
  const auto found = entries_.find(std::string(matrix.name));
  if (found == entries_.end() || !has_same_shape(found->second.tensor, matrix)) return {};
  Entry& entry = found->second;
  const bool verify = !entry.is_verified && !options_.from_disk;
  if (verify && hash_panels(entry.tensor.bytes, pool_) != entry.tensor.hash) {
    warn(str(path_.string(), ": ", matrix.name, ": damaged: the checksum of its ",
             entry.tensor.bytes.size(), " bytes does not match; it is packed again"));
    entries_.erase(found);
    return {};
  }
  entry.is_verified = true;
  return panels_of(entry);
}

CachedPanels PackedCache::add(const StoredMatrix& matrix, const SharedBytes& panels) {
  if (!is_writable_) return {.panels = panels};
  PackedTensor tensor = {.name = std::string(matrix.name),
                         .dtype = matrix.dtype,
                         .rows = matrix.rows,
                         .cols = matrix.cols,
                         .hash = hash_panels(panels.bytes, pool_),
                         .bytes = panels.bytes};
  try {
    if (writer_ == nullptr)
      writer_ = std::make_unique<PackedWriter>(path_, fingerprint_, options_.from_disk);
    const SharedBytes written = writer_->append(tensor);
    const SharedBytes& used = options_.from_disk ? written : panels;
    tensor.bytes = used.bytes;
    Entry& entry = entries_[tensor.name];
    entry = {.tensor = std::move(tensor), .owner = used.owner, .is_verified = true, .is_new = true};
    return panels_of(entry);
  } catch (const Error& error) {
    stop_writing(error);
    return {.panels = panels};
  }
}

CachedPanels PackedCache::panels_of(const Entry& entry) {
  const PackedTensor& tensor = entry.tensor;
  CachedPanels result = {.panels = {.bytes = tensor.bytes, .owner = entry.owner}};
  if (options_.from_disk) {
    result.disk =
        std::make_shared<const DiskPanels>(tensor.name, tensor.bytes, tensor.hash, disk_source_);
    on_disk_.push_back(result.disk);
  }
  return result;
}

void PackedCache::save() {
  if (writer_ == nullptr) return;
  std::vector<const PackedTensor*> kept;
  for (const auto& [name, entry] : entries_) {
    if (!entry.is_new) kept.push_back(&entry.tensor);
  }
  // The order of the map may vary.
  std::ranges::sort(kept, {}, [](const PackedTensor* tensor) { return tensor->name; });
  try {
    for (const PackedTensor* tensor : kept)
      writer_->append(*tensor);
    writer_->finish();
    writer_ = nullptr;
  } catch (const Error& error) {
    stop_writing(error);
  }
}

void PackedCache::stop_writing(const Error& error) {
  writer_ = nullptr;
  is_writable_ = false;
  if (options_.from_disk)
    fail(error.what(), "; the weights do not fit into memory, so they must be in this file");
  warn(str(error.what(), "; the weights will be packed again at the next start"));
}

void PackedCache::warn(const std::string& line) const {
  if (warn_) warn_(line);
}

}  // namespace graft::packing
