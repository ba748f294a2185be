#include "graft/formats/gguf/gguf_tokenizer.h"

#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "graft/base/error.h"

namespace graft::formats {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";
constexpr std::string_view kChatTemplate = "tokenizer.chat_template";

template <class Value>
using Field = std::pair<std::string_view, std::optional<Value> TokenizerData::*>;

// "seperator" is how GGUF spells it.
constexpr std::array<Field<std::int64_t>, 9> kIds = {{
    {"bos_token_id", &TokenizerData::bos_id},
    {"eos_token_id", &TokenizerData::eos_id},
    {"unknown_token_id", &TokenizerData::unk_id},
    {"cls_token_id", &TokenizerData::cls_id},
    {"seperator_token_id", &TokenizerData::sep_id},
    {"padding_token_id", &TokenizerData::pad_id},
    {"mask_token_id", &TokenizerData::mask_id},
    {"eot_token_id", &TokenizerData::eot_id},
    {"eom_token_id", &TokenizerData::eom_id},
}};

constexpr std::array<Field<bool>, 6> kFlags = {{
    {"add_bos_token", &TokenizerData::add_bos},
    {"add_eos_token", &TokenizerData::add_eos},
    {"add_space_prefix", &TokenizerData::add_space_prefix},
    {"remove_extra_whitespaces", &TokenizerData::remove_extra_whitespaces},
    {"normalizer.lowercase", &TokenizerData::lowercase},
    {"normalizer.strip_accents", &TokenizerData::strip_accents},
}};

std::string key(std::string_view name) {
  return str(kPrefix, name);
}

std::vector<std::string> strings(const GgufMetadata& metadata, const std::string& name) {
  const GgufArray* array = metadata.array(name);
  if (array == nullptr) return {};
  auto values = array->strings();
  if (!values) fail("metadata key \"", name, "\" is not an array of strings");
  return *std::move(values);
}

void check_length(const std::string& name, std::size_t length, std::size_t num_tokens) {
  if (length == num_tokens) return;
  fail("metadata key \"", name, "\" has ", length, " values for ", num_tokens, " tokens");
}

void read_scores(const GgufMetadata& metadata, TokenizerData& tokenizer) {
  const std::string name = key("scores");
  const GgufArray* array = metadata.array(name);
  if (array == nullptr) return;
  const auto scores = array->numbers();
  if (!scores) fail("metadata key \"", name, "\" is not an array of numbers");
  check_length(name, scores->size(), tokenizer.tokens.size());
  for (const double score : *scores)
    tokenizer.scores.push_back(static_cast<float>(score));
}

void read_types(const GgufMetadata& metadata, TokenizerData& tokenizer) {
  const std::string name = key("token_type");
  const GgufArray* array = metadata.array(name);
  tokenizer.types.assign(tokenizer.tokens.size(), TokenType::Normal);
  if (array == nullptr) return;
  const auto types = array->integers();
  if (!types) fail("metadata key \"", name, "\" is not an array of integers");
  check_length(name, types->size(), tokenizer.tokens.size());
  for (std::size_t i = 0; i < types->size(); ++i) {
    const std::int64_t type = (*types)[i];
    if (type < 0 || type > static_cast<std::int64_t>(TokenType::Byte)) {
      fail("metadata key \"", name, "\": token ", i, " is of type ", type, ", expected 0 to 6");
    }
    // 0 is "undefined": llama.cpp sets no attribute for it.
    if (type > 0) tokenizer.types[i] = static_cast<TokenType>(type);
  }
}

void read_ids(const GgufMetadata& metadata,
              TokenizerData& tokenizer,
              std::vector<std::string>& warnings) {
  for (const auto& [name, field] : kIds) {
    const auto id = metadata.integer(key(name));
    if (!id) continue;
    if (*id >= 0 && *id < static_cast<std::int64_t>(tokenizer.tokens.size())) {
      tokenizer.*field = id;
    } else {
      warnings.push_back(str(key(name), " is ", *id, ", the vocabulary has ",
                             tokenizer.tokens.size(), " tokens: ignored"));
    }
  }
}

void read_charsmap(const GgufMetadata& metadata,
                   TokenizerData& tokenizer,
                   std::vector<std::string>& warnings) {
  const std::string name = key("precompiled_charsmap");
  const GgufArray* array = metadata.array(name);
  if (array == nullptr) return;
  if (array->type != GgufType::U8 && array->type != GgufType::I8) {
    fail("metadata key \"", name, "\" is not an array of bytes");
  }
  if (tokenizer.model != "t5" && array->count > 0) {
    warnings.push_back(
        str(name, " is ignored: not supported for tokenizer model \"", tokenizer.model, "\""));
    return;
  }
  tokenizer.precompiled_charsmap.assign(reinterpret_cast<const char*>(array->bytes.data()),
                                        array->bytes.size());
}

TokenizerData read(const GgufMetadata& metadata, std::vector<std::string>& warnings) {
  TokenizerData tokenizer;
  tokenizer.model = metadata.string(key("model")).value_or("");
  tokenizer.tokens = strings(metadata, key("tokens"));
  if (tokenizer.tokens.empty()) return {};
  tokenizer.pre = metadata.string(key("pre")).value_or("");
  tokenizer.merges = strings(metadata, key("merges"));
  read_scores(metadata, tokenizer);
  read_types(metadata, tokenizer);
  read_ids(metadata, tokenizer, warnings);
  read_charsmap(metadata, tokenizer, warnings);
  for (const auto& [name, field] : kFlags)
    tokenizer.*field = metadata.boolean(key(name));
  tokenizer.chat_template = metadata.string(kChatTemplate).value_or("");
  return tokenizer;
}

}  // namespace

TokenizerData read_gguf_tokenizer(const GgufMetadata& metadata,
                                  const std::string& where,
                                  std::vector<std::string>& warnings) {
  try {
    return read(metadata, warnings);
  } catch (const Error& error) {
    fail(where, ": ", error.what());
  }
}

void write_gguf_tokenizer(const TokenizerData& tokenizer, GgufMetadata& metadata) {
  if (tokenizer.empty()) {
    // llama.cpp requires the key; "none" means that tokens are ids only.
    metadata.set(key("model"), std::string("none"));
    return;
  }
  metadata.set(key("model"), tokenizer.model);
  if (!tokenizer.pre.empty()) metadata.set(key("pre"), tokenizer.pre);
  metadata.set(key("tokens"), GgufArray::of(tokenizer.tokens));
  if (!tokenizer.scores.empty()) metadata.set(key("scores"), GgufArray::of(tokenizer.scores));
  std::vector<std::int32_t> types;
  types.reserve(tokenizer.types.size());
  for (const TokenType type : tokenizer.types)
    types.push_back(static_cast<std::int32_t>(type));
  metadata.set(key("token_type"), GgufArray::of(types));
  if (!tokenizer.merges.empty()) metadata.set(key("merges"), GgufArray::of(tokenizer.merges));
  for (const auto& [name, field] : kIds) {
    if (const auto& id = tokenizer.*field) {
      metadata.set(key(name), static_cast<std::uint32_t>(*id));
    }
  }
  for (const auto& [name, field] : kFlags) {
    if (const auto& flag = tokenizer.*field) metadata.set(key(name), *flag);
  }
  if (const std::string& map = tokenizer.precompiled_charsmap; !map.empty()) {
    const auto bytes = std::as_bytes(std::span(map));
    metadata.set(key("precompiled_charsmap"), GgufArray{.type = GgufType::U8,
                                                        .count = bytes.size(),
                                                        .bytes = {bytes.begin(), bytes.end()}});
  }
  if (!tokenizer.chat_template.empty()) {
    metadata.set(std::string(kChatTemplate), tokenizer.chat_template);
  }
}

}  // namespace graft::formats
