// Image files in a line of chat: dropped on the terminal, which types their paths, or named @FILE.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace graft::cli {

// A path as terminals type it: quoted, with backslashes before special characters, or as file: URL.
// Other text is returned as it is.
std::string typed_path(std::string_view text);

struct DroppedImages {
  std::string text;  // without the paths
  std::vector<std::filesystem::path> paths;
};
// Words that are the absolute path (or @path) of an existing file with the ending of an image
// format; also a line that is such a path as a whole.
DroppedImages take_dropped_images(const std::string& line);

}  // namespace graft::cli
