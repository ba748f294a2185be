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

PackedCache::PackedCache(const formats::WeightSource& source, ThreadPool* pool, Warn warn)
    : path_(path_for(source)), pool_(pool), warn_(std::move(warn)) {
  try {
    fingerprint_ = fingerprint_of(source);
    read_file();
  } catch (const Error& error) {
    this->warn(str(error.what(), "; the weights are packed again"));
  }
}

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

SharedBytes PackedCache::find(const StoredMatrix& matrix) {
  const auto found = entries_.find(std::string(matrix.name));
  if (found == entries_.end() || !has_same_shape(found->second.tensor, matrix)) return {};
  Entry& entry = found->second;
  if (!entry.is_verified && hash_panels(entry.tensor.bytes, pool_) != entry.tensor.hash) {
    warn(str(path_.string(), ": ", matrix.name, ": damaged: the checksum of its ",
             entry.tensor.bytes.size(), " bytes does not match; it is packed again"));
    entries_.erase(found);
    return {};
  }
  entry.is_verified = true;
  return {.bytes = entry.tensor.bytes, .owner = entry.owner};
}

void PackedCache::add(const StoredMatrix& matrix, const SharedBytes& panels) {
  entries_[std::string(matrix.name)] = {.tensor = {.name = std::string(matrix.name),
                                                   .dtype = matrix.dtype,
                                                   .rows = matrix.rows,
                                                   .cols = matrix.cols,
                                                   .hash = hash_panels(panels.bytes, pool_),
                                                   .bytes = panels.bytes},
                                        .owner = panels.owner,
                                        .is_verified = true};
  is_changed_ = true;
}

void PackedCache::save() {
  if (!is_changed_) return;
  PackedFile file = {.fingerprint = fingerprint_, .tensors = {}};
  for (const auto& [name, entry] : entries_)
    file.tensors.push_back(entry.tensor);
  std::ranges::sort(file.tensors, {}, &PackedTensor::name);  // the order of the map may vary
  try {
    write_packed(path_, file);
    is_changed_ = false;
  } catch (const Error& error) {
    warn(str(error.what(), "; the weights will be packed again at the next start"));
  }
}

void PackedCache::warn(const std::string& line) const {
  if (warn_) warn_(line);
}

}  // namespace graft::packing
