// Image files of `graft run --image` and `graft chat`.

#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "graft/api/llm.h"
#include "graft/base/text/json.h"

namespace graft::cli {

// The content part of a message, with the file as a data URL. Throws Error that names the file when
// it cannot be read or decoded, or is larger than images may be.
OrderedJson image_part(const std::filesystem::path& path);
// Throws Error that names the option of the user when the model reads no images.
void check_takes_images(const api::LLM& llm, const char* option);

// A message of the user: text alone, or the images before it as parts.
OrderedJson user_message(const std::string& text, std::span<const OrderedJson> images);

}  // namespace graft::cli
