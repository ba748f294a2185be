#include "graft/packing/disk_panels.h"

#include "graft/base/error.h"
#include "graft/base/system/mapped_file.h"
#include "graft/packing/packed_file.h"

namespace graft::packing {

ReadAhead system_read_ahead() {
  return [](const std::string& /*name*/, std::span<const std::byte> bytes) {
    graft::read_ahead(bytes);
  };
}

void DiskPanels::verify(ThreadPool* pool) const {
  if (is_verified_) return;
  if (hash_panels(bytes_, pool) != hash_) {
    fail(source_->file, ": ", name_, ": damaged: the checksum of its ", bytes_.size(),
         " bytes does not match; delete the file, the next start writes it again");
  }
  is_verified_ = true;
}

}  // namespace graft::packing
