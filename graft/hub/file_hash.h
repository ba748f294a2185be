// Hashes of files as the hubs publish them.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace graft::hub {

struct ExpectedHash {
  enum class Kind : std::uint8_t { None, Sha256, GitSha1 };  // GitSha1: of a git blob object

  Kind kind = Kind::None;
  std::string hex = {};  // lower case
};

// Of 64 hexadecimal digits, in any case; otherwise Kind::None.
ExpectedHash sha256_or_none(std::string_view hex);
// Of 40 hexadecimal digits; otherwise Kind::None.
ExpectedHash git_sha1_or_none(std::string_view hex);

std::string sha256_of(std::string_view text);

// The hash of a file in hexadecimal. Throws Error when the file cannot be read, and whatever
// `on_bytes` throws, which is called with the size of each piece.
std::string hash_file(const std::filesystem::path& path,
                      ExpectedHash::Kind kind,
                      const std::function<void(std::uint64_t bytes)>& on_bytes = {});

}  // namespace graft::hub
