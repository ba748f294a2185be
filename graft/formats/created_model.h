// A model that is made of the weights of another one: a small JSON file (NAME.graft) with the path
// of the weights and what it changes: system prompt, chat template, first messages, parameters.

#pragma once

#include <filesystem>
#include <string>

#include "graft/base/text/json.h"

namespace graft::formats {

struct CreatedModel {
  std::string name = {};
  std::filesystem::path weights = {};  // a GGUF file or a Hugging Face folder, absolute
  std::string from = {};               // name of the model that it was made of; empty: of files
  std::string system = {};
  std::string chat_template = {};                  // Jinja; empty: that of the weights
  OrderedJson messages = OrderedJson::array();     // before those of a request
  OrderedJson parameters = OrderedJson::object();  // Ollama's options: "temperature", "stop" …
  std::string license = {};
};

// By its extension.
bool is_created_model(const std::filesystem::path& path);
inline constexpr const char* kCreatedModelExtension = ".graft";

// Throws Error for a file that cannot be read or is malformed.
CreatedModel read_created_model(const std::filesystem::path& path);
// The text of the file.
std::string created_model_text(const CreatedModel& model);

// The path of the weights: of a created model those that its file names, else `path` itself.
// Throws Error.
std::filesystem::path weights_path(const std::filesystem::path& path);

}  // namespace graft::formats
