#include "graft/cli/image_file.h"

#include <fstream>
#include <iterator>
#include <span>

#include "graft/base/error.h"
#include "graft/base/text/base64.h"
#include "graft/base/text/units.h"
#include "graft/vision/decode.h"

namespace graft::cli {

OrderedJson image_part(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) fail(path.string(), ": no such file or folder");
  if (std::filesystem::is_directory(path, error))
    fail(path.string(), ": is a folder, not an image");
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(path.string(), ": cannot read the image");
  const std::size_t max_bytes = vision::ImageLimits().max_bytes;
  std::string bytes(max_bytes + 1, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(in.gcount()));
  if (bytes.size() > max_bytes)
    fail(path.string(), ": the image is larger than ", bytes_text(max_bytes));
  if (bytes.empty()) fail(path.string(), ": is empty");
  try {
    vision::decode_image(std::as_bytes(std::span(bytes)));
  } catch (const Error& problem) {
    fail(path.string(), ": ", problem.what());
  }
  return {{"type", "image_url"},
          {"image_url", {{"url", "data:image;base64," + base64_encode(bytes)}}}};
}

void check_takes_images(const api::LLM& llm, const char* option) {
  if (llm.has_vision()) return;
  fail(option, ": the model ", llm.source().config().name,
       " has no vision tower: it reads no images");
}

OrderedJson user_message(const std::string& text, std::span<const OrderedJson> images) {
  if (images.empty()) return {{"role", "user"}, {"content", text}};
  OrderedJson parts = OrderedJson::array();
  for (const OrderedJson& image : images)
    parts.push_back(image);
  parts.push_back({{"type", "text"}, {"text", text}});
  return {{"role", "user"}, {"content", std::move(parts)}};
}

}  // namespace graft::cli
