// The list of model families.

#include <algorithm>
#include <array>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/models/families/family.h"

namespace graft::models {

extern const Family kLlama, kMistral, kMixtral, kQwen2, kQwen2Moe, kQwen3, kQwen3Moe, kDeepseekV2,
    kDeepseekV3, kKimiK2, kGlm4Moe, kGlm4, kLlava, kLlavaNext, kMinimaxM2, kPhi3, kGemma3Text,
    kGemma3, kGptOss, kQwen3Next, kQwen35MoeText, kQwen35Moe,

    kDeepseekV32, kGlmMoeDsa, kLlama4Text, kLlama4, kDeepseekV4;

namespace {

constexpr std::array kFamilies = {
    &kLlama,      &kMistral,    &kMixtral,       &kQwen2,     &kQwen2Moe,    &kQwen3,
    &kQwen3Moe,   &kDeepseekV2, &kDeepseekV3,    &kKimiK2,    &kGlm4Moe,     &kGlm4,
    &kLlava,      &kLlavaNext,  &kMinimaxM2,     &kPhi3,      &kGemma3Text,  &kGemma3,
    &kGptOss,     &kQwen3Next,  &kQwen35MoeText, &kQwen35Moe, &kDeepseekV32, &kGlmMoeDsa,
    &kLlama4Text, &kLlama4,     &kDeepseekV4,
};

}  // namespace

std::span<const Family* const> families() {
  return kFamilies;
}

const Family* find_family(std::string_view model_type) {
  for (const Family* family : kFamilies) {
    if (!model_type.empty() && std::ranges::count(family->model_types, model_type) > 0) {
      return family;
    }
  }
  return nullptr;
}

const Family* find_family_of_class(std::span<const std::string> classes) {
  for (const Family* family : kFamilies) {
    if (std::ranges::count(classes, family->hf_class) > 0) return family;
  }
  return nullptr;
}

std::span<const formats::PreTokenizerName> pre_tokenizer_names() {
  static const std::vector<formats::PreTokenizerName> names = [] {
    std::vector<formats::PreTokenizerName> all;
    for (const Family* family : kFamilies)
      all.insert(all.end(), family->pre_tokenizers.begin(), family->pre_tokenizers.end());
    return all;
  }();
  return names;
}

std::string supported_model_types() {
  std::string names;
  for (const Family* family : kFamilies) {
    for (const std::string_view type : family->model_types) {
      if (!type.empty()) names += str(names.empty() ? "" : ", ", type);
    }
  }
  return names;
}

std::string supported_gguf_architectures() {
  std::vector<std::string_view> listed;
  std::string names;
  for (const Family* family : kFamilies) {
    const std::string_view name = family->gguf.architecture;
    if (std::ranges::count(listed, name) > 0) continue;
    listed.push_back(name);
    names += str(names.empty() ? "" : " ", name);
  }
  return names;
}

}  // namespace graft::models
