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

// Of the files' sizes and times and of the list of tensors. The weights themselves are not read:
// that would take as long as packing them.
std::uint64_t fingerprint_of(const formats::WeightSource& source) {
  std::uint64_t hash = 0;
  const auto add = [&](const void* data, std::size_t size) {
    hash = XXH3_64bits_withSeed(data, size, hash);
  };
  for (const std::filesystem::path& file : source.files()) {
    struct stat status = {};
    if (::stat(file.c_str(), &status) != 0) fail(file.string(), ": ", std::strerror(errno));
    const std::int64_t numbers[] = {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
    add(numbers, sizeof(numbers));
  }
  for (const formats::TensorInfo& tensor : source.tensors()) {
    add(tensor.name.data(), tensor.name.size());
    const std::string_view type = name(tensor.dtype);
    add(type.data(), type.size());
    add(tensor.shape.data(), tensor.shape.size() * sizeof(std::int64_t));
  }
  return hash;
}

bool is_of(const PackedTensor& tensor, const ops::Weight& weight) {
  return tensor.dtype == weight.dtype && tensor.rows == weight.rows() &&
         tensor.cols == weight.cols();
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
    this->warn(str(error.what(), "; weights are packed again"));
  }
}

void PackedCache::read_file() {
  std::error_code ignored;
  if (!std::filesystem::exists(path_, ignored)) return;
  const auto mapped = std::make_shared<const MappedFile>(path_);
  const PackedFile file = parse_packed(mapped->bytes(), path_.string());
  if (file.fingerprint != fingerprint_)
    fail(path_.string(), ": belongs to another model, or to this one before it changed");
  for (const PackedTensor& tensor : file.tensors)
    entries_[tensor.name] = {.tensor = tensor, .owner = mapped};
}

ops::SharedBytes PackedCache::find(const ops::Weight& weight) {
  const auto found = entries_.find(weight.name);
  if (found == entries_.end() || !is_of(found->second.tensor, weight)) return {};
  Entry& entry = found->second;
  if (!entry.is_checked && hash_panels(entry.tensor.bytes, pool_) != entry.tensor.hash) {
    warn(str(path_.string(), ": ", weight.name, ": damaged: its checksum is not that of its ",
             entry.tensor.bytes.size(), " bytes; packed again"));
    entries_.erase(found);
    return {};
  }
  entry.is_checked = true;
  return {.bytes = entry.tensor.bytes, .owner = entry.owner};
}

void PackedCache::keep(const ops::Weight& weight, const ops::SharedBytes& panels) {
  entries_[weight.name] = {.tensor = {.name = weight.name,
                                      .dtype = weight.dtype,
                                      .rows = weight.rows(),
                                      .cols = weight.cols(),
                                      .hash = hash_panels(panels.bytes, pool_),
                                      .bytes = panels.bytes},
                           .owner = panels.owner,
                           .is_checked = true};
  is_changed_ = true;
}

void PackedCache::save() {
  if (!is_changed_) return;
  PackedFile file = {.fingerprint = fingerprint_, .tensors = {}};
  for (const auto& [name, entry] : entries_)
    file.tensors.push_back(entry.tensor);
  std::ranges::sort(file.tensors, {}, &PackedTensor::name);  // the same file every time
  try {
    write_packed(path_, file);
    is_changed_ = false;
  } catch (const Error& error) {
    warn(str(error.what(), "; weights will be packed at the next start too"));
  }
}

void PackedCache::warn(const std::string& line) const {
  if (warn_) warn_(line);
}

}  // namespace graft::packing
