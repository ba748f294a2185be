// How byte-level BPE writes the 256 bytes as printable letters: most of Latin-1 stands for itself,
// the others (space, control, …) for the letters from U+0100 on, in order.

#pragma once

#include <array>
#include <string>

namespace graft::formats {

// UTF-8 by byte.
const std::array<std::string, 256>& byte_letters();

}  // namespace graft::formats
