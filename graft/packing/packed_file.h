// A file of packed weights (docs/models.md: --repack-cache), little-endian:
//
//     "GRAFTPAK"      8 bytes
//     u32             version of this format: 2
//     u32             version of the panel layout: kPanelLayoutVersion
//     u64             fingerprint of the checkpoint
//     u64, u64        offset and bytes of the table
//     u64             XXH3 of all bytes before it, then of the table
//     padding to a multiple of 4096 bytes
//     panels          of each tensor, padded to a multiple of 4096 bytes
//     table           u64 number of tensors, then for each
//                       name, type   u64 length and text
//                       i64 rows, i64 cols
//                       u64 offset in the file, u64 bytes, u64 hash_panels() of them
//
// The table is last, so that a file can be written one tensor at a time (packed_writer.h). Reading
// checks everything but the tensors' hashes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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

// The bytes of a file around its panels, for PackedWriter. `offsets` has those of the tensors.
std::string packed_header(std::uint64_t fingerprint,
                          std::uint64_t table_offset,
                          std::string_view table);  // kPackedAlignment bytes
std::string packed_table(std::span<const PackedTensor> tensors,
                         std::span<const std::uint64_t> offsets);
// Bytes: a page, so that the pages of one tensor are read and dropped without its neighbours.
inline constexpr std::uint64_t kPackedAlignment = 4096;

// XXH3 of the XXH3s of every 256 KiB, computed on all threads of the pool; the result does not
// depend on their number. pool == nullptr: on the calling thread.
std::uint64_t hash_panels(std::span<const std::byte> bytes, ThreadPool* pool);

}  // namespace graft::packing
