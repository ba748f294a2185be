// A model that may have to be downloaded, as the user names it:
//   org/repo[:FILE|:TYPE][@REVISION]   Hugging Face; also hf:…, hf.co/…, https://huggingface.co/…
//   ms:org/repo[:FILE|:TYPE][@REVISION]  ModelScope
//   ollama:[namespace/]model[:tag]     Ollama's registry
//   http://… and https://…             one file

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace graft::hub {

enum class Source : std::uint8_t { HuggingFace, ModelScope, Ollama, Url };

struct ModelRef {
  Source source = Source::HuggingFace;
  std::string repo = {};      // "org/repo", Ollama: "library/llama3.2"; the URL itself
  std::string selector = {};  // a file name or a type ("Q4_K_M"), Ollama: the tag; empty: default
  std::string revision = {};  // branch, tag or commit; empty: the default branch

  friend bool operator==(const ModelRef&, const ModelRef&) = default;
};

// nullopt: the text is a local path or a plain name. Throws Error for a malformed reference.
std::optional<ModelRef> parse_model_ref(std::string_view text);

// A name as Ollama's API has it: "llama3.2", "user/model:tag", "hf.co/org/repo:Q4_K_M". Throws
// Error.
ModelRef parse_ollama_name(std::string_view name);

// The text that parse_model_ref() reads as this reference.
std::string to_string(const ModelRef& ref);

// "Hugging Face", "ModelScope", "Ollama", "URL".
std::string_view source_name(Source source);

// Throws Error for a path of a remote file that could leave its folder: absolute, "..", ".", empty
// components, backslashes, control characters, or over 512 bytes. Errors begin with `where`.
void check_remote_path(std::string_view path, const std::string& where);

}  // namespace graft::hub
