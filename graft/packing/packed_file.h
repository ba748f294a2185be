// A file of packed weights (docs/models.md: --repack-cache), little-endian:
//
//     "GRAFTPAK"      8 bytes
//     u32             version of this format: 1
//     u32             version of the panel layout: kPanelLayoutVersion
//     u64             fingerprint of the checkpoint
//     u64             bytes of the table
//     table           u64 number of tensors, then for each
//                       name, type   u64 length and text
//                       i64 rows, i64 cols
//                       u64 offset after the padded header, u64 bytes, u64 hash_panels() of them
//     u64             XXH3 of all bytes before it
//     padding to a multiple of 64 bytes
//     panels          of each tensor, padded to a multiple of 64 bytes
//
// Reading checks everything but the tensors' hashes.

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
  std::span<const std::byte> bytes;  // panels: packed_bytes(dtype, rows, cols) bytes
};

struct PackedFile {
  std::uint64_t fingerprint = 0;
  std::vector<PackedTensor> tensors;
};

// Tensors point into `bytes`. Throws Error, prefixed with `where`, for bytes that are not a packed
// weights file, are truncated or damaged, or have another version of the format or of the layout.
PackedFile parse_packed(std::span<const std::byte> bytes, const std::string& where);

// `path` holds a complete file or none, also after a failure. Throws Error.
void write_packed(const std::filesystem::path& path, const PackedFile& file);

// XXH3 of the XXH3s of every 256 KiB, computed on all threads of the pool; the result does not
// depend on their number. pool == nullptr: on the calling thread.
std::uint64_t hash_panels(std::span<const std::byte> bytes, ThreadPool* pool);

}  // namespace graft::packing
