// Files that people have in place of a model's.

#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace graft::formats {

// Throws Error that names what the file is, when it is a Git LFS pointer, a web page, a pickle or
// an older format. For files that cannot be read as what they should be.
void refuse_mistaken_file(std::string_view where, std::span<const std::byte> bytes);

}  // namespace graft::formats
