#include "graft/formats/byte_reader.h"

#include "graft/base/error.h"

namespace graft::formats {

std::uint64_t ByteReader::count(std::string_view things, std::size_t min_bytes) {
  const auto count = number<std::uint64_t>();
  if (count > remaining() / min_bytes) {
    fail_here(str(count, " ", things, " need at least ", min_bytes, " bytes each, ", remaining(),
                  " bytes are left"));
  }
  return count;
}

void ByteReader::fail_here(const std::string& message) const {
  fail(where_, ": ", subject_, subject_.empty() ? "" : ": ", message);
}

void ByteReader::fail_short(std::uint64_t num_bytes) const {
  fail_here(str("truncated: needs ", num_bytes, " bytes at byte ", position_, ", the end is at ",
                bytes_.size()));
}

}  // namespace graft::formats
