#include "graft/formats/huggingface/hf_config_files.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/system/mapped_file.h"
#include "graft/formats/mistaken_file.h"

namespace graft::formats {
namespace {

// Some published files write -1 for "none".
std::optional<std::int64_t> token_id(const Fields& fields, std::string_view key) {
  const auto id = fields.integer(key);
  return id && *id >= 0 ? id : std::nullopt;
}

Json read_config(const std::filesystem::path& path) {
  try {
    return read_json_file(path);
  } catch (const Error&) {
    const MappedFile file(path);
    refuse_mistaken_file(path.string(), file.bytes());
    throw;
  }
}

}  // namespace

HfConfigFiles read_hf_config_files(const std::filesystem::path& path) {
  HfConfigFiles files{.path = path, .config = read_config(path), .generation_config = {}};
  const auto generation = path.parent_path() / "generation_config.json";
  if (std::filesystem::exists(generation)) files.generation_config = read_json_file(generation);
  const auto preprocessor = path.parent_path() / "preprocessor_config.json";
  if (std::filesystem::exists(preprocessor))
    files.preprocessor_config = read_json_file(preprocessor);
  return files;
}

void read_token_ids(const Fields& fields, ModelTokens& tokens) {
  if (const auto id = token_id(fields, "bos_token_id")) tokens.bos_token_id = id;
  if (const auto id = token_id(fields, "pad_token_id")) tokens.pad_token_id = id;
  std::vector<std::int64_t> ends = fields.integers("eos_token_id", true);
  std::erase_if(ends, [](std::int64_t id) { return id < 0; });
  if (!ends.empty()) tokens.eos_token_ids = ends;
}

ModelTokens read_model_tokens(const HfConfigFiles& files) {
  std::vector<std::string> problems;
  ModelTokens tokens;
  const Fields top(files.config, "", problems);
  const Fields text = top.object("text_config");
  tokens.vocab_size = text.integer("vocab_size", top.integer("vocab_size", 0));
  read_token_ids(text, tokens);
  read_token_ids(top, tokens);
  if (files.generation_config) {
    read_token_ids(Fields(*files.generation_config, "generation_config.", problems), tokens);
  }
  fail_if_any(problems, files.path.string());
  return tokens;
}

}  // namespace graft::formats
