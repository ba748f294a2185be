#include "graft/cli/text_file.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iostream>
#include <istream>
#include <iterator>
#include <span>
#include <system_error>

#include "graft/base/error.h"
#include "graft/base/system/new_file.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;

std::string read_stream(std::istream& in, const std::string& name) {
  errno = 0;
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) fail(name, ": cannot read: ", std::strerror(errno));
  if (text.empty()) fail(name, ": the file is empty");
  return text;
}

}  // namespace

std::string read_text_file(const fs::path& path) {
  if (path == "-") return read_stream(std::cin, "standard input");
  std::error_code error;
  if (fs::is_directory(path, error)) fail(path.string(), ": is a folder, expected a file");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(path.string(), ": ", std::strerror(errno));
  return read_stream(in, path.string());
}

void write_text_file(const fs::path& path, const std::string& text) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    errno = 0;
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    if (!out) fail(path.string(), ": cannot write: ", std::strerror(errno));
    return;
  }
  NewFile file(path);
  file.append(std::as_bytes(std::span(text)));
  file.finish();
}

void check_new_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status) || fs::is_regular_file(status)) const NewFile file(path);
}

}  // namespace graft::cli
