#include "graft/formats/huggingface/hf_special_tokens.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "graft/formats/huggingface/fields.h"

namespace graft::formats {
namespace {

using Ids = std::unordered_map<std::string, std::int64_t>;

// "<s>", or {"content": "<s>", …}
std::string token_text(const Fields& fields, std::string_view key) {
  const Json* value = fields.find(key);
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  if (value->is_object()) return fields.object(key).text("content", "");
  fields.problem(key, *value, "a string or an object with \"content\"");
  return "";
}

// Null when `value` is not an object or lacks the key.
const Json* member(const Json& value, std::string_view key) {
  if (!value.is_object()) return nullptr;
  const auto found = value.find(key);
  return found == value.end() ? nullptr : &*found;
}

// Whether one normalizer or pre-tokenizer step puts a space before the text; nullopt when the step
// does not say.
std::optional<bool> prefix_of_step(const Json& step) {
  const Json* type = member(step, "type");
  if (type == nullptr) return std::nullopt;
  if (*type == "Prepend") return true;
  if (*type != "Metaspace" && *type != "ByteLevel") return std::nullopt;
  const Json* scheme = member(step, "prepend_scheme");
  if (scheme != nullptr && scheme->is_string()) return *scheme != "never";
  const Json* add = member(step, "add_prefix_space");
  return add != nullptr && add->is_boolean() ? std::optional(add->get<bool>()) : std::nullopt;
}

class Reader {
 public:
  Reader(const Json& tokenizer,
         const HfTokenizerExtras& extras,
         const Ids& ids,
         TokenizerData& out,
         std::vector<std::string>& problems)
      : tokenizer_(tokenizer, "", problems),
        config_(extras.tokenizer_config != nullptr ? *extras.tokenizer_config : empty_object(),
                "tokenizer_config.",
                problems),
        map_(extras.special_tokens_map != nullptr ? *extras.special_tokens_map : empty_object(),
             "special_tokens_map.",
             problems),
        ids_(ids),
        out_(out) {}

  void read_ids(const ModelTokens& model);
  void read_flags();
  void read_chat_template(const std::string& jinja_file);

 private:
  std::optional<std::int64_t> id_of(const std::string& text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<std::int64_t> named(std::string_view key) const;
  bool is_token(std::int64_t id) const {
    return id >= 0 && id < static_cast<std::int64_t>(out_.tokens.size());
  }
  void read_template_processing(const Json& processor);
  void read_post_processor();
  std::optional<bool> prefix_from_steps(const Json* step) const;

  Fields tokenizer_;
  Fields config_;
  Fields map_;
  const Ids& ids_;
  TokenizerData& out_;
};

std::optional<std::int64_t> Reader::named(std::string_view key) const {
  if (const auto id = id_of(token_text(config_, key))) return id;
  return id_of(token_text(map_, key));
}

void Reader::read_ids(const ModelTokens& model) {
  out_.bos_id = named("bos_token");
  out_.eos_id = named("eos_token");
  out_.pad_id = named("pad_token");
  out_.sep_id = named("sep_token");
  out_.mask_id = named("mask_token");
  if (const auto id = named("unk_token")) out_.unk_id = id;
  if (!out_.bos_id && model.bos_token_id && is_token(*model.bos_token_id)) {
    out_.bos_id = model.bos_token_id;
  }
  if (!out_.pad_id && model.pad_token_id && is_token(*model.pad_token_id)) {
    out_.pad_id = model.pad_token_id;
  }
  // The tokenizer has one end token, generation_config.json may list more.
  for (const std::int64_t id : model.eos_token_ids) {
    if (!is_token(id)) continue;
    if (!out_.eos_id) {
      out_.eos_id = id;
    } else if (id == *out_.eos_id || id == out_.eot_id) {
      continue;
    } else if (!out_.eot_id) {
      out_.eot_id = id;
    } else if (!out_.eom_id) {
      out_.eom_id = id;
    }
  }
}

// "single" is the template of one text: special tokens around {"Sequence": …}.
void Reader::read_template_processing(const Json& processor) {
  const auto single = processor.find("single");
  if (single == processor.end() || !single->is_array() || single->empty()) return;
  const auto is_special = [this](const Json& part, const std::optional<std::int64_t>& id) {
    if (!part.is_object() || !part.contains("SpecialToken")) return false;
    const Json& token = part["SpecialToken"];
    if (!token.is_object() || !token.contains("id") || !token["id"].is_string()) return false;
    return id.has_value() && id_of(token["id"].get<std::string>()) == id;
  };
  out_.add_bos = is_special(single->front(), out_.bos_id);
  out_.add_eos = is_special(single->back(), out_.eos_id);
}

void Reader::read_post_processor() {
  const Json* post = tokenizer_.find("post_processor");
  if (post == nullptr || !post->is_object()) return;
  const auto is_template = [](const Json& processor) {
    if (!processor.is_object()) return false;
    const auto type = processor.find("type");
    return type != processor.end() && *type == "TemplateProcessing";
  };
  if (is_template(*post)) read_template_processing(*post);
  const auto processors = post->find("processors");
  if (processors == post->end() || !processors->is_array()) return;
  for (const Json& processor : *processors) {
    if (is_template(processor)) read_template_processing(processor);
  }
}

std::optional<bool> Reader::prefix_from_steps(const Json* step) const {
  if (step == nullptr) return std::nullopt;
  for (const std::string_view key : {"normalizers", "pretokenizers"}) {
    const Json* parts = member(*step, key);
    if (parts == nullptr || !parts->is_array()) continue;
    for (const Json& part : *parts) {
      if (const auto answer = prefix_from_steps(&part)) return answer;
    }
  }
  return prefix_of_step(*step);
}

void Reader::read_flags() {
  read_post_processor();
  // An explicit flag wins: transformers rebuilds the template from it.
  if (const auto flag = config_.boolean("add_bos_token")) out_.add_bos = flag;
  if (const auto flag = config_.boolean("add_eos_token")) out_.add_eos = flag;
  out_.add_space_prefix = config_.boolean("add_prefix_space");
  if (!out_.add_space_prefix) {
    out_.add_space_prefix = prefix_from_steps(tokenizer_.find("normalizer"));
  }
  if (!out_.add_space_prefix) {
    out_.add_space_prefix = prefix_from_steps(tokenizer_.find("pre_tokenizer"));
  }
}

void Reader::read_chat_template(const std::string& jinja_file) {
  out_.chat_template = jinja_file;
  if (!jinja_file.empty()) return;
  const Json* value = config_.find("chat_template");
  if (value == nullptr) return;
  if (!value->is_array()) {
    out_.chat_template = config_.text("chat_template", "");
    return;
  }
  // A list of named templates: "default", else the first.
  for (const Json& entry : *value) {
    if (!entry.is_object() || !entry.contains("template")) continue;
    const Json& text = entry["template"];
    const bool is_default = entry.contains("name") && entry["name"] == "default";
    if (text.is_string() && (is_default || out_.chat_template.empty())) {
      out_.chat_template = text.get<std::string>();
    }
  }
}

}  // namespace

void read_special_tokens(const Json& tokenizer,
                         const HfTokenizerExtras& extras,
                         const ModelTokens& model,
                         const std::unordered_map<std::string, std::int64_t>& ids,
                         TokenizerData& out,
                         std::vector<std::string>& problems) {
  Reader reader(tokenizer, extras, ids, out, problems);
  reader.read_ids(model);
  reader.read_flags();
  reader.read_chat_template(extras.chat_template);
}

}  // namespace graft::formats
