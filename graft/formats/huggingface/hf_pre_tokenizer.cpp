#include "graft/formats/huggingface/hf_pre_tokenizer.h"

#include <string_view>
#include <utility>

namespace graft::formats {
namespace {

// Some files have a line break in the regex, others its escape.
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

bool is_row(const NamedPreTokenizer& row, const std::vector<std::string>& steps) {
  if (steps.size() > row.steps.size()) return false;
  for (std::size_t i = 0; i < row.steps.size(); ++i) {
    if (row.steps[i] != (i < steps.size() ? std::string_view(steps[i]) : "")) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> pre_tokenizer_steps(const Json& pre_tokenizer) {
  std::vector<std::string> steps;
  add_steps(pre_tokenizer, steps);
  return steps;
}

const NamedPreTokenizer* find_pre_tokenizer(
    const std::vector<std::string>& steps,
    bool has_nfc,
    const std::function<bool(std::string_view token)>& has_token) {
  const auto rank = [&](const NamedPreTokenizer& row) {
    return std::pair(!row.marker_token.empty(), row.nfc == has_nfc);
  };
  const NamedPreTokenizer* found = nullptr;
  for (const NamedPreTokenizer& row : named_pre_tokenizers()) {
    if (!is_row(row, steps)) continue;
    if (!row.marker_token.empty() && !has_token(row.marker_token)) continue;
    if (found == nullptr || rank(row) > rank(*found)) found = &row;
  }
  return found;
}

}  // namespace graft::formats
