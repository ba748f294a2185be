#include "graft/tokenizer/spec/spec_json.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "graft/tokenizer/spec/json_access.h"
#include "graft/tokenizer/spec/json_steps.h"

namespace graft::tokenizer {
namespace {

constexpr std::size_t kMaxSteps = 64;
constexpr std::string_view kAdded = "added_tokens";
constexpr std::string_view kModel = "model";
constexpr std::string_view kPost = "post_processor";

class Reader {
 public:
  Reader(const formats::TokenizerData& data, const Vocabulary& vocabulary)
      : data_(data),
        vocabulary_(vocabulary),
        json_(parse_json(data.tokenizer_json, "tokenizer.json")) {}

  // "truncation" and "padding" are ignored on purpose: they concern batches, and Transformers sets
  // them for each call.
  Spec read() {
    if (!json_.is_object()) fail("not an object");
    read_normalizer(value("normalizer"), spec_);
    read_pre_tokenizer(value("pre_tokenizer"), spec_);
    if (spec_.pre_tokenizers.size() > kMaxSteps) {
      fail("pre_tokenizer has ", spec_.pre_tokenizers.size(), " steps, the maximum is ", kMaxSteps);
    }
    read_decoder(value("decoder"), spec_);
    read_model();
    read_added_tokens();
    read_post_processor(value("post_processor"));
    apply_flags();
    return std::move(spec_);
  }

 private:
  const Json& value(const char* key) const {
    static const Json null;
    const Json* found = member(json_, key);
    return found == nullptr ? null : *found;
  }
  void read_model();
  void check_unused(const Json& model, const char* key) const;
  void read_merges(const Json& model);
  void read_unigram(const Json& model);
  void read_added_tokens();
  void check_added(const AddedToken& token) const;
  void read_template(const Json& json);
  void read_post_processor(const Json& json);
  std::vector<TokenId> ids_of_special(const Json& json, const std::string& name) const;
  void apply_flags();

  const formats::TokenizerData& data_;
  const Vocabulary& vocabulary_;
  Json json_;
  Spec spec_;
};

// Fails for a feature that is not supported. Null, "" and 0 mean that it is not used.
void Reader::check_unused(const Json& model, const char* key) const {
  const Json* found = member(model, key);
  if (found == nullptr || *found == Json("") || *found == Json(0)) return;
  fail(kModel, ": \"", key, "\" is not supported");
}

void Reader::read_merges(const Json& model) {
  for (const Json& merge : list_at(model, "merges", kModel)) {
    const std::size_t idx = spec_.model.merges.size();
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      spec_.model.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    const std::string line = merge.is_string() ? merge.get<std::string>() : "";
    const auto space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
      fail(kModel, ": merge ", idx, " \"", line, "\" is not a pair");
    }
    spec_.model.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
}

void Reader::read_unigram(const Json& model) {
  spec_.model.kind = ModelSpec::Kind::Unigram;
  spec_.model.scores.assign(vocabulary_.size(), 0.0);
  std::size_t id = 0;
  for (const Json& entry : list_at(model, "vocab", kModel)) {
    if (!entry.is_array() || entry.size() != 2 || !entry[1].is_number()) {
      fail(kModel, ": vocab entry ", id, " is not [token, score]");
    }
    if (id < spec_.model.scores.size()) spec_.model.scores[id] = entry[1].get<double>();
    ++id;
  }
  const Json* unknown = member(model, "unk_id");
  if (unknown == nullptr && !spec_.model.byte_fallback) {
    fail(kModel, ": Unigram without unk_id is not supported");
  }
  if (unknown == nullptr) return;
  if (!unknown->is_number_unsigned() || unknown->get<std::size_t>() >= vocabulary_.size()) {
    fail(kModel, ": unk_id is ", unknown->dump(), ", the vocabulary has ", vocabulary_.size(),
         " tokens");
  }
  spec_.model.unk_id = unknown->get<TokenId>();
}

void Reader::read_model() {
  const Json& model = value("model");
  // Old files have no type; only the vocab of Unigram is a list.
  const Json* vocab = member(model, "vocab");
  const bool is_list = vocab != nullptr && vocab->is_array();
  const std::string type = member(model, "type") != nullptr ? type_of(model, kModel)
                           : is_list                        ? "Unigram"
                                                            : "BPE";
  spec_.model.byte_fallback = flag_at(model, "byte_fallback", false, kModel);
  if (type == "Unigram") {
    if (spec_.model.byte_level) fail(kModel, ": Unigram with ByteLevel is not supported");
    read_unigram(model);
    return;
  }
  if (type != "BPE") fail(kModel, ": type \"", type, "\" is not supported");
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    check_unused(model, key);
  spec_.model.ignore_merges = flag_at(model, "ignore_merges", false, kModel);
  spec_.model.fuse_unk = flag_at(model, "fuse_unk", false, kModel);
  if (member(model, "unk_token") != nullptr) {
    const std::string name = text_at(model, "unk_token", kModel);
    spec_.model.unk_id = vocabulary_.find(name);
    if (!spec_.model.unk_id && !name.empty()) {
      fail(kModel, ": unk_token \"", name, "\" is not in the vocabulary");
    }
  }
  read_merges(model);
}

void Reader::check_added(const AddedToken& token) const {
  // Ids beyond the rows of the model were dropped from the vocabulary before.
  if (vocabulary_.token(token.id) != token.content) {
    fail(kAdded, ": id ", token.id, " is \"", token.content, "\" and \"",
         vocabulary_.token(token.id), '"');
  }
  const Json* vocab = member(value("model"), "vocab");
  if (vocab == nullptr || !vocab->is_object()) return;
  const auto known = vocab->find(token.content);
  if (known != vocab->end() && *known != token.id) {
    fail(kAdded, ": \"", token.content, "\" has two ids, ", token.id, " and ", known->dump());
  }
}

void Reader::read_added_tokens() {
  const Json& list = value("added_tokens");
  if (list.is_null()) return;
  if (!list.is_array()) fail(kAdded, ": not a list");
  for (const Json& json : list) {
    AddedToken token = {
        .content = text_at(json, "content", kAdded),
        .is_special = flag_at(json, "special", false, kAdded),
        .single_word = flag_at(json, "single_word", false, kAdded),
        .lstrip = flag_at(json, "lstrip", false, kAdded),
        .rstrip = flag_at(json, "rstrip", false, kAdded),
    };
    token.normalized = flag_at(json, "normalized", !token.is_special, kAdded);
    const Json* id = member(json, "id");
    if (id == nullptr || !id->is_number_unsigned()) fail(kAdded, ": an entry lacks \"id\"");
    if (token.content.empty() || id->get<std::uint64_t>() >= vocabulary_.size()) continue;
    token.id = id->get<TokenId>();
    check_added(token);
    spec_.added_tokens.push_back(std::move(token));
  }
}

std::vector<TokenId> Reader::ids_of_special(const Json& json, const std::string& name) const {
  std::vector<TokenId> ids;
  const Json* tokens = member(json, "special_tokens");
  const Json* token = tokens != nullptr ? member(*tokens, name.c_str()) : nullptr;
  if (token == nullptr) fail(kPost, ": no special token \"", name, '"');
  for (const Json& id : list_at(*token, "ids", kPost)) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= vocabulary_.size()) {
      fail(kPost, ": \"", name, "\" has id ", id.dump(), ", the vocabulary has ",
           vocabulary_.size(), " tokens");
    }
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

// "single": special tokens around {"Sequence": {"id": "A"}}.
void Reader::read_template(const Json& json) {
  std::vector<TokenId> before;
  std::vector<TokenId> after;
  int num_sequences = 0;
  for (const Json& part : list_at(json, "single", kPost)) {
    if (member(part, "Sequence") != nullptr) {
      ++num_sequences;
      continue;
    }
    const Json* special = member(part, "SpecialToken");
    if (special == nullptr) fail(kPost, ": \"single\" has an entry that is not a token");
    std::vector<TokenId>& side = num_sequences == 0 ? before : after;
    const auto ids = ids_of_special(json, text_at(*special, "id", kPost));
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (num_sequences != 1) fail(kPost, ": \"single\" has ", num_sequences, " sequences, expected 1");
  spec_.prefix.insert(spec_.prefix.begin(), before.begin(), before.end());
  spec_.suffix.insert(spec_.suffix.end(), after.begin(), after.end());
}

void Reader::read_post_processor(const Json& json) {
  if (json.is_null()) return;
  const std::string type = type_of(json, kPost);
  if (type == "Sequence") {
    for (const Json& part : list_at(json, "processors", kPost))
      read_post_processor(part);
  } else if (type == "TemplateProcessing") {
    read_template(json);
  } else if (type != "ByteLevel") {  // ByteLevel only changes offsets
    fail(kPost, ": \"", type, "\" is not supported");
  }
}

// add_bos and add_eos of tokenizer_config.json override the template.
void Reader::apply_flags() {
  const auto apply = [](const std::optional<bool>& wanted, const std::optional<std::int64_t>& id,
                        std::vector<TokenId>& side) {
    if (!wanted || !id) return;
    const auto token = static_cast<TokenId>(*id);
    const bool has = std::ranges::find(side, token) != side.end();
    if (*wanted && !has) side.push_back(token);
    if (!*wanted && has) std::erase(side, token);
  };
  apply(data_.add_bos, data_.bos_id, spec_.prefix);
  apply(data_.add_eos, data_.eos_id, spec_.suffix);
}

}  // namespace

Spec spec_from_json(const formats::TokenizerData& data, const Vocabulary& vocabulary) {
  try {
    return Reader(data, vocabulary).read();
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (message.starts_with("tokenizer.json")) throw;
    fail("tokenizer.json: ", message);
  }
}

}  // namespace graft::tokenizer
