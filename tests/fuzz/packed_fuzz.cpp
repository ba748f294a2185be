// Fuzzes packed weight files: parsing either succeeds or throws Error. All bytes of an accepted
// file must be readable, and tensors must not overlap.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <xxhash.h>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/packing/packed_file.h"

namespace {

// Sets the checksum of the table, which mutations almost never get right.
void set_checksum(std::span<std::byte> bytes) {
  constexpr std::size_t kTableOffsetAt = 24;
  constexpr std::size_t kTableBytesAt = 32;
  constexpr std::size_t kHashAt = 40;
  std::uint64_t offset = 0;
  std::uint64_t table_bytes = 0;
  if (bytes.size() < kHashAt + sizeof(std::uint64_t)) return;
  std::memcpy(&offset, bytes.data() + kTableOffsetAt, sizeof(offset));
  std::memcpy(&table_bytes, bytes.data() + kTableBytesAt, sizeof(table_bytes));
  if (offset > bytes.size() || table_bytes > bytes.size() - offset) return;
  const std::uint64_t hash =
      XXH3_64bits_withSeed(bytes.data() + offset, table_bytes, XXH3_64bits(bytes.data(), kHashAt));
  std::memcpy(bytes.data() + kHashAt, &hash, sizeof(hash));
}

void read_all(const graft::packing::PackedFile& file) {
  std::uint64_t sum = file.fingerprint;
  const std::byte* end = nullptr;
  for (const graft::packing::PackedTensor& tensor : file.tensors) {
    GRAFT_CHECK(tensor.bytes.data() >= end, tensor.name, " overlaps the previous tensor");
    end = tensor.bytes.data() + tensor.bytes.size();
    sum += graft::packing::hash_panels(tensor.bytes, nullptr);
  }
  volatile std::uint64_t sink = sum;
  static_cast<void>(sink);
}

}  // namespace

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string where = "fuzz.graft-packed";
  const auto input = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(input.begin(), input.end());
  set_checksum(bytes);
  try {
    read_all(graft::packing::parse_packed(bytes, where));
  } catch (const graft::Error&) {
    return 0;
  }
  return 0;
}
