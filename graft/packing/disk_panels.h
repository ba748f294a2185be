// Panels that stay in the mapped cache file because the weights are larger than the free memory.
// They are read ahead before they are multiplied, and compared with their checksum before the first
// use in a process: a damaged weight is never multiplied.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "graft/base/parallel.h"

namespace graft::packing {

// Asks the system to read mapped bytes of the weight `name` into memory, without waiting.
using ReadAhead = std::function<void(const std::string& name, std::span<const std::byte> bytes)>;
ReadAhead system_read_ahead();

class DiskPanels {
 public:
  struct Source {
    std::string file;
    ReadAhead read_ahead;
  };

  DiskPanels(std::string name,
             std::span<const std::byte> bytes,
             std::uint64_t hash,
             std::shared_ptr<const Source> source)
      : name_(std::move(name)), bytes_(bytes), hash_(hash), source_(std::move(source)) {}

  const std::string& name() const { return name_; }
  std::size_t bytes() const { return bytes_.size(); }
  void read_ahead() const { source_->read_ahead(name_, bytes_); }
  // Reads all bytes at the first call. Throws Error when they are damaged.
  void verify(ThreadPool* pool) const;

 private:
  std::string name_;
  std::span<const std::byte> bytes_;
  std::uint64_t hash_;
  std::shared_ptr<const Source> source_;
  mutable std::atomic<bool> is_verified_ = false;
};

}  // namespace graft::packing
