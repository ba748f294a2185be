// The parser of one GGUF file, and the rules of the format that reader and writer share.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/formats/byte_reader.h"
#include "graft/formats/gguf/metadata.h"
#include "graft/formats/weight_source.h"

namespace graft::formats {

inline constexpr std::uint32_t kGgufMagic = 0x46554747;  // "GGUF" read as a little-endian number
inline constexpr std::uint32_t kGgufVersion = 3;         // written; 2 is read too
inline constexpr std::size_t kGgufMaxDims = 4;

struct GgufPart {
  std::uint32_t version = 0;
  GgufMetadata metadata;
  std::vector<TensorInfo> tensors;  // in the order of the file's list; they point into its bytes
};

// Errors begin with `where`. Reads the header only, never tensor data.
GgufPart parse_gguf(std::span<const std::byte> file, const std::string& where);

// general.alignment or its default; throws Error unless it is a power of two of at least 8.
std::uint64_t gguf_alignment(const GgufMetadata& metadata, const std::string& where);

// Throws Error when a key or tensor name is empty, longer than the format allows, not UTF-8, or has
// control characters: names are printed and written as JSON.
void check_gguf_name(std::string_view name, const std::string& subject);

// Skips the elements of an array and checks them.
void skip_gguf_elements(ByteReader& reader, GgufType type, std::uint64_t count);

}  // namespace graft::formats
