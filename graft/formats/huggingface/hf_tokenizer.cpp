#include "graft/formats/huggingface/hf_tokenizer.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "graft/base/error.h"
#include "graft/base/system/mapped_file.h"
#include "graft/base/text/base64.h"
#include "graft/formats/huggingface/fields.h"
#include "graft/formats/huggingface/hf_pre_tokenizer.h"
#include "graft/formats/huggingface/hf_special_tokens.h"

namespace graft::formats {
namespace {

// A highest id above this is an error of the file: all ids up to the highest are allocated.
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 22;

// llama.cpp's score for tokens that merging must not produce.
constexpr float kNeverMerged = -1000.0F;

bool is_byte_token(std::string_view token) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with(">") &&
         is_hex(token[3]) && is_hex(token[4]);
}

class Builder {
 public:
  Builder(const Json& tokenizer,
          const HfTokenizerExtras& extras,
          const ModelTokens& model,
          std::vector<std::string>& warnings)
      : tokenizer_(tokenizer),
        extras_(extras),
        model_tokens_(model),
        warnings_(warnings),
        top_(tokenizer, "", problems_),
        model_(top_.object("model")) {}

  TokenizerData build(const std::string& where);

 private:
  enum class Kind : std::uint8_t { ByteLevel, SentencePiece, Unigram };

  std::optional<Kind> find_kind() const;
  void make_room(std::int64_t highest_id);
  void place(std::int64_t id, const std::string& token, TokenType type);
  void read_vocab();
  void read_unigram_vocab();
  void read_merges();
  void read_added_tokens();
  void type_and_score(Kind kind);
  void find_pre(Kind kind);
  void read_normalizer(const Json& json);
  std::int64_t highest_id() const;

  const Json& tokenizer_;
  const HfTokenizerExtras& extras_;
  const ModelTokens& model_tokens_;
  std::vector<std::string>& warnings_;
  std::vector<std::string> problems_;
  Fields top_;
  Fields model_;
  std::vector<std::string> steps_;  // of the pre-tokenizer
  std::unordered_map<std::string, std::int64_t> ids_;
  std::int64_t num_outside_ = 0;  // tokens with ids past vocab_size
  TokenizerData out_;
};

// Files older than "byte_fallback" are recognized by their byte tokens.
std::optional<Builder::Kind> Builder::find_kind() const {
  const Json* vocab = model_.find("vocab");
  const std::string type =
      model_.text("type", vocab != nullptr && vocab->is_array() ? "Unigram" : "BPE");
  if (type == "Unigram") return Kind::Unigram;
  if (type != "BPE") return std::nullopt;
  const bool is_byte_level = std::ranges::any_of(
      steps_, [](const std::string& step) { return step.starts_with("bytelevel"); });
  const bool has_bytes = vocab != nullptr && vocab->is_object() && vocab->contains("<0x0A>");
  const bool falls_back = model_.boolean("byte_fallback", false) || has_bytes;
  return falls_back && !is_byte_level ? Kind::SentencePiece : Kind::ByteLevel;
}

std::int64_t Builder::highest_id() const {
  std::int64_t highest = -1;
  if (const Json* vocab = model_.find("vocab"); vocab != nullptr && vocab->is_object()) {
    for (const Json& id : *vocab) {
      if (id.is_number_integer()) highest = std::max(highest, id.get<std::int64_t>());
    }
  } else if (vocab != nullptr && vocab->is_array()) {
    highest = static_cast<std::int64_t>(vocab->size()) - 1;
  }
  if (const Json* added = top_.find("added_tokens"); added != nullptr && added->is_array()) {
    for (const Json& token : *added) {
      if (!token.is_object() || !token.contains("id")) continue;
      const Json& id = token["id"];
      if (id.is_number_integer()) highest = std::max(highest, id.get<std::int64_t>());
    }
  }
  return highest;
}

void Builder::make_room(std::int64_t highest) {
  std::int64_t size = model_tokens_.vocab_size;
  if (size <= 0) {
    size = highest + 1;
    if (size > kMaxTokens) {
      problems_.push_back(
          str("the highest token id is ", highest, ", expected less than ", kMaxTokens));
      size = 0;
    }
  }
  for (std::int64_t id = 0; id < size; ++id)
    out_.tokens.push_back(str("[PAD", id, ']'));
  out_.types.assign(out_.tokens.size(), TokenType::Unused);
}

void Builder::place(std::int64_t id, const std::string& token, TokenType type) {
  if (id < 0) {
    problems_.push_back(str("token \"", token, "\" has id ", id));
  } else if (id >= static_cast<std::int64_t>(out_.tokens.size())) {
    ++num_outside_;
  } else {
    const auto idx = static_cast<std::size_t>(id);
    out_.tokens[idx] = token;
    out_.types[idx] = type;
    ids_[token] = id;
  }
}

void Builder::read_vocab() {
  const Json* vocab = model_.find("vocab");
  if (vocab == nullptr || !vocab->is_object()) {
    problems_.emplace_back("\"model.vocab\" is not an object");
    return;
  }
  for (const auto& [token, id] : vocab->items()) {
    if (!id.is_number_integer()) {
      problems_.push_back(str("\"model.vocab\" has an id that is not an integer"));
      return;
    }
    const auto number = id.get<std::int64_t>();
    const bool is_inside = number >= 0 && number < static_cast<std::int64_t>(out_.tokens.size());
    if (is_inside && out_.types[static_cast<std::size_t>(number)] != TokenType::Unused) {
      problems_.push_back(str("\"model.vocab\" has duplicate id ", number));
      return;
    }
    place(number, token, TokenType::Normal);
  }
}

void Builder::read_unigram_vocab() {
  const Json* vocab = model_.find("vocab");
  if (vocab == nullptr || !vocab->is_array()) {
    problems_.emplace_back("\"model.vocab\" is not a list");
    return;
  }
  out_.scores.assign(out_.tokens.size(), kNeverMerged);
  std::size_t id = 0;
  for (const Json& entry : *vocab) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      problems_.push_back(str("\"model.vocab\" entry ", id, " is not [token, score]"));
      return;
    }
    place(static_cast<std::int64_t>(id), entry[0].get<std::string>(), TokenType::Normal);
    if (id < out_.scores.size()) out_.scores[id] = entry[1].get<float>();
    ++id;
  }
}

// One "left right" string per merge, or since 2024 a pair, which may contain spaces: they become
// byte-level BPE's character for a space.
void Builder::read_merges() {
  const Json* merges = model_.find("merges");
  if (merges == nullptr || !merges->is_array()) {
    problems_.emplace_back("\"model.merges\" is not a list");
    return;
  }
  const auto without_spaces = [](const std::string& part) {
    std::string out;
    for (const char c : part)
      out += c == ' ' ? std::string("\u0120") : std::string(1, c);
    return out;
  };
  for (const Json& merge : *merges) {
    if (merge.is_string() && merge.get<std::string>().find(' ', 1) != std::string::npos) {
      out_.merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      out_.merges.push_back(without_spaces(merge[0].get<std::string>()) + ' ' +
                            without_spaces(merge[1].get<std::string>()));
    } else {
      problems_.push_back(str("\"model.merges\" entry ", out_.merges.size(), " is not a pair"));
      return;
    }
  }
}

void Builder::read_added_tokens() {
  const Json* added = top_.find("added_tokens");
  if (added == nullptr) return;
  if (!added->is_array()) {
    problems_.emplace_back("\"added_tokens\" is not a list");
    return;
  }
  for (const Json& entry : *added) {
    const Fields token(entry, "added_tokens.", problems_);
    const std::int64_t id = token.integer("id", -1);
    const bool is_special = token.boolean("special", false);
    place(id, token.text("content", ""), is_special ? TokenType::Control : TokenType::UserDefined);
    if (!problems_.empty()) return;
  }
}

void Builder::type_and_score(Kind kind) {
  if (kind == Kind::ByteLevel) return;
  if (kind == Kind::Unigram) {
    out_.unk_id = model_.integer("unk_id");
  } else if (const auto unknown = ids_.find(model_.text("unk_token", "")); unknown != ids_.end()) {
    out_.unk_id = unknown->second;
  }
  const std::int64_t unknown_id = out_.unk_id.value_or(-1);
  if (unknown_id >= 0 && unknown_id < static_cast<std::int64_t>(out_.types.size())) {
    out_.types[static_cast<std::size_t>(unknown_id)] = TokenType::Unknown;
  } else {
    out_.unk_id.reset();
  }
  const bool is_spm = kind == Kind::SentencePiece;
  if (is_spm) out_.scores.assign(out_.tokens.size(), 0.0F);
  for (std::size_t id = 0; id < out_.tokens.size(); ++id) {
    TokenType& type = out_.types[id];
    if (type == TokenType::Normal && is_byte_token(out_.tokens[id])) type = TokenType::Byte;
    if (!is_spm) continue;
    // SentencePiece orders its pieces by merge rank.
    if (type == TokenType::Normal) out_.scores[id] = -static_cast<float>(id);
    if (type == TokenType::UserDefined || type == TokenType::Unused) {
      out_.scores[id] = kNeverMerged;
    }
  }
}

void Builder::find_pre(Kind kind) {
  out_.pre = "default";
  if (kind != Kind::ByteLevel) return;
  const Json* normalizer = top_.find("normalizer");
  const bool has_nfc = normalizer != nullptr && normalizer->dump().find("NFC") != std::string::npos;
  const auto has_token = [this](std::string_view token) {
    return ids_.contains(std::string(token));
  };
  if (const NamedPreTokenizer* known = find_pre_tokenizer(steps_, has_nfc, has_token)) {
    out_.pre = known->name;
    if (known->nfc != has_nfc) {
      warnings_.push_back(str("tokenizer.json: pre-tokenizer \"", known->name,
                              known->nfc ? "\" without NFC" : "\" with NFC",
                              ": GGUF cannot express this"));
    }
    return;
  }
  std::string steps;
  for (const std::string& step : steps_)
    steps += str(steps.empty() ? "" : " | ", step);
  warnings_.push_back(str("tokenizer.json: unknown pre-tokenizer, text may be split wrongly: ",
                          steps.empty() ? "none" : steps));
}

// The part of a unigram model's normalizer that GGUF can express.
void Builder::read_normalizer(const Json& json) {
  const auto text = [](const Json& object, const char* key) {
    const bool has = object.is_object() && object.contains(key) && object[key].is_string();
    return has ? object[key].get<std::string>() : std::string();
  };
  const std::string type = text(json, "type");
  if (type == "Sequence" && json.contains("normalizers") && json["normalizers"].is_array()) {
    for (const Json& part : json["normalizers"])
      read_normalizer(part);
  } else if (type == "Precompiled") {
    const auto charsmap = base64_decode(text(json, "precompiled_charsmap"));
    if (!charsmap) problems_.emplace_back("normalizer.precompiled_charsmap is not base64");
    out_.precompiled_charsmap = charsmap.value_or("");
  } else if (type == "Replace" && json.contains("pattern") &&
             text(json["pattern"], "Regex") == " {2,}") {
    out_.remove_extra_whitespaces = true;
  }
}

TokenizerData Builder::build(const std::string& where) {
  fail_if_any(problems_, where);
  if (const Json* pre_tokenizer = top_.find("pre_tokenizer")) {
    steps_ = pre_tokenizer_steps(*pre_tokenizer);
  }
  const auto kind = find_kind();
  fail_if_any(problems_, where);
  if (!kind) {
    warnings_.push_back(str("tokenizer.json: model type \"", model_.text("type", ""),
                            "\" is not supported (BPE and Unigram are): no tokenizer"));
    return {};
  }
  out_.model = *kind == Kind::ByteLevel ? "gpt2" : *kind == Kind::Unigram ? "t5" : "llama";
  make_room(highest_id());
  if (*kind == Kind::Unigram) {
    read_unigram_vocab();
    if (const Json* normalizer = top_.find("normalizer")) read_normalizer(*normalizer);
  } else {
    read_vocab();
    read_merges();
  }
  fail_if_any(problems_, where);
  read_added_tokens();
  type_and_score(*kind);
  find_pre(*kind);
  read_special_tokens(tokenizer_, extras_, model_tokens_, ids_, out_, problems_);
  fail_if_any(problems_, where);
  if (num_outside_ > 0) {
    warnings_.push_back(str("tokenizer.json: ", num_outside_, " tokens have ids past vocab_size ",
                            out_.tokens.size(), ": left out"));
  }
  return std::move(out_);
}

std::string read_text_file(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path) || std::filesystem::is_empty(path)) return "";
  const MappedFile file(path);
  const auto bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<Json> read_if_exists(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  return read_json_file(path);
}

}  // namespace

TokenizerData read_hf_tokenizer(const Json& tokenizer,
                                const HfTokenizerExtras& extras,
                                const ModelTokens& model,
                                const std::string& where,
                                std::vector<std::string>& warnings) {
  return Builder(tokenizer, extras, model, warnings).build(where);
}

// chat_template.jinja, or the template in chat_template.json, where processors of multimodal models
// had it.
std::string read_chat_template(const std::filesystem::path& folder) {
  std::string text = read_text_file(folder / "chat_template.jinja");
  if (!text.empty()) return text;
  const auto json = read_if_exists(folder / "chat_template.json");
  if (!json || !json->is_object()) return {};
  const auto found = json->find("chat_template");
  return found != json->end() && found->is_string() ? found->get<std::string>() : std::string();
}

TokenizerData read_hf_tokenizer_folder(const std::filesystem::path& folder,
                                       const ModelTokens& model,
                                       std::vector<std::string>& warnings) {
  const auto path = folder / "tokenizer.json";
  if (!std::filesystem::exists(path)) {
    for (const std::string_view other : {"tokenizer.model", "tiktoken.model", "vocab.json"}) {
      if (!std::filesystem::exists(folder / other)) continue;
      warnings.push_back(
          str(other, " is not supported, only tokenizer.json: no tokenizer is loaded"));
      break;
    }
    return {};
  }
  const std::string text = read_text_file(path);
  const Json tokenizer = parse_json(text, path.string());
  const auto tokenizer_config = read_if_exists(folder / "tokenizer_config.json");
  const auto special_tokens_map = read_if_exists(folder / "special_tokens_map.json");
  const HfTokenizerExtras extras = {
      .tokenizer_config = tokenizer_config ? &*tokenizer_config : nullptr,
      .special_tokens_map = special_tokens_map ? &*special_tokens_map : nullptr,
      .chat_template = read_chat_template(folder),
  };
  TokenizerData data = read_hf_tokenizer(tokenizer, extras, model, path.string(), warnings);
  if (!data.empty()) data.tokenizer_json = text;
  return data;
}

}  // namespace graft::formats
