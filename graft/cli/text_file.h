// Text files that commands read and write.

#pragma once

#include <filesystem>
#include <string>

namespace graft::cli {

// "-" is standard input; pipes are read to their end. Throws Error, also for an empty file.
std::string read_text_file(const std::filesystem::path& path);

// A new file is complete or absent; devices and pipes are written to. Throws Error with the cause.
void write_text_file(const std::filesystem::path& path, const std::string& text);

// Throws Error when write_text_file() could not create the file. For commands that compute first.
void check_new_file(const std::filesystem::path& path);

}  // namespace graft::cli
