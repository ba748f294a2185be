// Packed weights in a file (docs/models.md: --repack-cache), little-endian:
//
//   "GRAFTPAK"  u32 format  u32 layout of the panels  u64 fingerprint of the checkpoint
//   u64 bytes of the table
//   the table: u64 tensors, for each: name, type (both u64 length and text), i64 rows, i64 cols,
//              u64 offset behind the header, u64 bytes, u64 hash of the bytes
//   u64 XXH3 of all before it
//
// The header and every tensor are padded to 64 bytes. Reading checks all but the tensors' hashes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "graft/base/parallel.h"
#include "graft/tensor/dtype.h"

namespace graft::packing {

struct PackedTensor {
  std::string name;
  DType dtype = DType::F32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::uint64_t hash = 0;            // hash_panels(bytes)
  std::span<const std::byte> bytes;  // ops::packed_bytes(dtype, rows, cols) of them
};

struct PackedFile {
  std::uint64_t fingerprint = 0;
  std::vector<PackedTensor> tensors;
};

// Tensors point into `bytes`. Throws Error, which `where` begins, for bytes that are no such file,
// are cut off or damaged, or come from a graft with another format or layout.
PackedFile parse_packed(std::span<const std::byte> bytes, const std::string& where);

// The file gets its name when the last byte is on disk. Throws Error.
void write_packed(const std::filesystem::path& path, const PackedFile& file);

// XXH3 of the XXH3s of every 256 KiB, so that threads can share the work; their number does not
// matter. Null: this thread only.
std::uint64_t hash_panels(std::span<const std::byte> bytes, ThreadPool* pool);

}  // namespace graft::packing
