#include "graft/formats/huggingface/hf_pre_tokenizer.h"

#include <array>

namespace graft::formats {
namespace {

// Where a step of the table ends like this, only what stands before it is compared: the letter
// class of deepseek-llm has 150 ranges, and its first ones are its alone.
constexpr std::string_view kAndSoOn = "…";

struct Row {
  std::string_view name;
  std::array<std::string_view, 7> steps;  // unused ones at the end are empty
};

// As the published tokenizer.json files have them; line breaks are written as \r and \n.
constexpr std::array kRows = {
    Row{"gpt-2", {"bytelevel regex"}},
    Row{"smollm", {"digits 1", "bytelevel regex"}},
    Row{"llama-bpe",
        {R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
         R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
         "bytelevel"}},
    Row{"qwen2",
        {R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
         R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
         "bytelevel"}},
    Row{"qwen35",
        {R"(split (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
         R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
         "bytelevel"}},
    Row{"deepseek-llm",
        {R"(split [\r\n])", R"(split \s?[A-Za-zµÀ-ÖØ-öø-ƺ…)",
         R"(split \s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(split \s+$)",
         "split [一-龥ࠀ-一가-퟿]+", "digits…", "bytelevel"}},
    Row{"deepseek-coder",
        {R"(split [\r\n])", R"(split \s?\p{L}+)", R"(split \s?\p{P}+)",
         "split [一-龥ࠀ-一가-퟿]+", "digits…", "bytelevel"}},
    Row{"deepseek-v3",
        {R"(split \p{N}{1,3})", "split [一-龥぀-ゟ゠-ヿ]+",
         R"(split [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?)"
         R"([\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
         "bytelevel"}},
    Row{"tekken",
        {R"(split [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
         R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
         R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
         "bytelevel"}},
    Row{"gpt-4o",
        {R"(split [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
         R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
         R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
         R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
         R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
         "bytelevel"}},
    Row{"kimi-k2", {R"(split [\p{Han}]+|…)", "bytelevel"}},
};

// Some files have a line break in the regex where others have its escape.
std::string with_escapes(const std::string& regex) {
  std::string out;
  for (const char c : regex) {
    if (c == '\r') {
      out += "\\r";
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

bool flag(const Json& step, const char* key, bool fallback) {
  const auto found = step.find(key);
  return found != step.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

std::string regex_of(const Json& step) {
  const auto pattern = step.find("pattern");
  if (pattern == step.end() || !pattern->is_object()) return "";
  const auto regex = pattern->find("Regex");
  if (regex == pattern->end() || !regex->is_string()) return "";
  return with_escapes(regex->get<std::string>());
}

void add_steps(const Json& step, std::vector<std::string>& steps) {
  if (!step.is_object()) return;
  const auto found = step.find("type");
  const std::string type =
      found != step.end() && found->is_string() ? found->get<std::string>() : "";
  if (type == "Sequence") {
    const auto parts = step.find("pretokenizers");
    if (parts == step.end() || !parts->is_array()) return;
    for (const Json& part : *parts)
      add_steps(part, steps);
  } else if (type == "Split") {
    steps.push_back("split " + regex_of(step));
  } else if (type == "Digits") {
    steps.emplace_back(flag(step, "individual_digits", false) ? "digits 1" : "digits");
  } else if (type == "ByteLevel") {
    steps.emplace_back(flag(step, "use_regex", true) ? "bytelevel regex" : "bytelevel");
  } else {
    steps.push_back(type);
  }
}

bool same(std::string_view step, std::string_view wanted) {
  if (wanted.ends_with(kAndSoOn)) {
    return step.starts_with(wanted.substr(0, wanted.size() - kAndSoOn.size()));
  }
  return step == wanted;
}

bool is_row(const Row& row, const std::vector<std::string>& steps) {
  if (steps.size() > row.steps.size()) return false;
  for (std::size_t i = 0; i < row.steps.size(); ++i) {
    const std::string_view step = i < steps.size() ? std::string_view(steps[i]) : "";
    if (!same(step, row.steps[i])) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> pre_tokenizer_steps(const Json& pre_tokenizer) {
  std::vector<std::string> steps;
  add_steps(pre_tokenizer, steps);
  return steps;
}

std::optional<std::string_view> find_pre_tokenizer(const std::vector<std::string>& steps) {
  for (const Row& row : kRows) {
    if (is_row(row, steps)) return row.name;
  }
  return std::nullopt;
}

}  // namespace graft::formats
