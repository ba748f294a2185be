#include "graft/formats/mistaken_file.h"

#include <algorithm>
#include <string>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"

namespace graft::formats {
namespace {

struct Mistake {
  std::string_view start;  // the first bytes, letters in lower case
  std::string_view what;
};

constexpr Mistake kMistakes[] = {
    {"version https://git-lfs",
     "a Git LFS pointer, not the file itself; `git lfs pull` or `graft pull` fetches it"},
    {"<!doctype html", "an HTML page, perhaps the error page of a failed download"},
    {"<html", "an HTML page, perhaps the error page of a failed download"},
    {"pk\x03\x04", "a ZIP or PyTorch file; graft reads safetensors and GGUF"},
    {"\x80\x02", "a Python pickle; graft reads safetensors and GGUF"},
    {"ggjt", "a file of llama.cpp's format before GGUF; it must be converted again"},
    {"ggml", "a file of llama.cpp's format before GGUF; it must be converted again"},
};

}  // namespace

void refuse_mistaken_file(std::string_view where, std::span<const std::byte> bytes) {
  std::string start;
  for (const std::byte byte : bytes.first(std::min<std::size_t>(bytes.size(), 64))) {
    const char c = static_cast<char>(byte);
    const bool is_space = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (start.empty() && is_space) continue;
    start += lower_case(c);
  }
  for (const Mistake& mistake : kMistakes) {
    if (start.starts_with(mistake.start)) fail(where, ": ", mistake.what);
  }
}

}  // namespace graft::formats
