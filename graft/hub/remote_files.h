// The files of a repository, and the choice of those that make one model.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/hub/file_hash.h"

namespace graft::hub {

struct RemoteFile {
  std::string path = {};   // relative to the repository, checked by check_remote_path()
  std::uint64_t size = 0;  // bytes
  ExpectedHash hash = {};
};

struct RemoteRepo {
  std::string commit = {};  // empty: unknown
  std::vector<RemoteFile> files = {};
};

// More files than any model has; a longer list is refused.
inline constexpr std::size_t kMaxRemoteFiles = 20'000;

struct ChosenFiles {
  std::vector<RemoteFile> files = {};  // all parts of a split GGUF file, or a safetensors folder
  // The file to open: the first GGUF part; empty: the folder itself.
  std::string main = {};
  std::string type = {};  // "Q4_K_M", as far as the file name tells; empty: unknown

  std::uint64_t bytes() const;
};

// `selector`: a file name, a type such as Q4_K_M, or empty: Q4_K_M or the nearest type that exists,
// else the safetensors. Throws Error that lists the types there are.
ChosenFiles choose_files(std::span<const RemoteFile> files,
                         std::string_view selector,
                         const std::string& where);

// A GGUF file name without folders, extension and part number: "model-Q4_K_M".
std::string gguf_name(std::string_view path);

}  // namespace graft::hub
