#include "graft/convert/mix.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "graft/base/error.h"

namespace graft::convert {
namespace {

using models::ModelConfig;

// clang-format off
constexpr std::array kMixes = {
    Mix{"F32",    DType::F32,     0, "32 bits, as a reference"},
    Mix{"BF16",   DType::BF16,   32, "16 bits, as most checkpoints are published"},
    Mix{"F16",    DType::F16,     1, "16 bits, smaller range than BF16"},
    Mix{"Q8_0",   DType::Q8_0,    7, "8.5 bits, no measurable loss"},
    Mix{"Q6_K",   DType::Q6_K,   18, "6.6 bits, very small loss"},
    Mix{"Q5_K_M", DType::Q5_K,   17, "5.7 bits, small loss"},
    Mix{"Q5_K_S", DType::Q5_K,   16, "5.5 bits"},
    Mix{"Q5_1",   DType::Q5_1,    9, "6 bits, blocks of 32"},
    Mix{"Q5_0",   DType::Q5_0,    8, "5.5 bits, blocks of 32"},
    Mix{"Q4_K_M", DType::Q4_K,   15, "4.8 bits, the usual choice"},
    Mix{"Q4_K_S", DType::Q4_K,   14, "4.6 bits"},
    Mix{"Q4_1",   DType::Q4_1,    3, "5 bits, blocks of 32"},
    Mix{"Q4_0",   DType::Q4_0,    2, "4.5 bits, blocks of 32"},
    Mix{"IQ4_NL", DType::IQ4_NL, 25, "4.5 bits, non-uniform levels"},
    Mix{"IQ4_XS", DType::IQ4_XS, 30, "4.25 bits, non-uniform levels"},
    Mix{"MXFP4",  DType::MXFP4,  38, "experts at 4.25 bits, everything else Q8_0"},
    Mix{"Q3_K_L", DType::Q3_K,   13, "4.3 bits"},
    Mix{"Q3_K_M", DType::Q3_K,   12, "3.9 bits"},
    Mix{"Q3_K_S", DType::Q3_K,   11, "3.5 bits"},
    Mix{"Q2_K",   DType::Q2_K,   10, "3.2 bits, visible loss"},
    Mix{"Q2_K_S", DType::Q2_K,   21, "2.8 bits"},
};
// clang-format on

enum class Role : std::uint8_t { Output, TokenEmbedding, AttnV, AttnK, AttnOutput, FfnDown, Other };

enum class When : std::uint8_t {
  Always,
  WideGqa,       // four or more query heads per KV head: the matrix is small
  EightExperts,  // Mixtral: attention is a small part of the model, so extra bits cost little
  FirstTwo,      // layers; so the following
  FirstFour,
  FirstEighth,
  FirstSixteenth,
  MoreBits,  // the first and last eighth of the layers, and every third layer between
};

struct Exception {
  std::string_view mix;  // empty: every quantized mix
  Role role;
  When when;
  DType type;
};

// The first matching row applies; without one a tensor gets the base type.
// clang-format off
constexpr std::array kExceptions = {
    Exception{"Q2_K",   Role::AttnOutput, When::EightExperts,   DType::Q5_K},
    Exception{"Q3_K_S", Role::AttnOutput, When::EightExperts,   DType::Q5_K},
    Exception{"Q3_K_M", Role::AttnOutput, When::EightExperts,   DType::Q5_K},
    Exception{"IQ4_NL", Role::AttnOutput, When::EightExperts,   DType::Q5_K},
    Exception{"IQ4_XS", Role::AttnOutput, When::EightExperts,   DType::Q5_K},
    Exception{"Q4_K_S", Role::AttnOutput, When::EightExperts,   DType::Q5_K},
    Exception{"Q4_K_M", Role::AttnOutput, When::EightExperts,   DType::Q5_K},
    Exception{"Q3_K_L", Role::AttnOutput, When::EightExperts,   DType::Q3_K},
    Exception{"",       Role::AttnV,      When::EightExperts,   DType::Q8_0},
    Exception{"",       Role::AttnK,      When::EightExperts,   DType::Q8_0},

    Exception{"Q2_K",   Role::AttnV,      When::WideGqa,        DType::Q4_K},
    Exception{"Q2_K",   Role::AttnV,      When::Always,         DType::Q3_K},
    Exception{"Q2_K",   Role::FfnDown,    When::Always,         DType::Q3_K},
    Exception{"Q2_K",   Role::AttnOutput, When::Always,         DType::Q3_K},
    Exception{"Q2_K_S", Role::AttnV,      When::WideGqa,        DType::Q4_K},
    Exception{"Q2_K_S", Role::FfnDown,    When::FirstEighth,    DType::Q4_K},
    Exception{"Q3_K_M", Role::AttnV,      When::FirstTwo,       DType::Q5_K},
    Exception{"Q3_K_M", Role::AttnV,      When::Always,         DType::Q4_K},
    Exception{"Q3_K_M", Role::FfnDown,    When::FirstSixteenth, DType::Q5_K},
    Exception{"Q3_K_M", Role::FfnDown,    When::Always,         DType::Q4_K},
    Exception{"Q3_K_M", Role::AttnOutput, When::Always,         DType::Q4_K},
    Exception{"Q3_K_L", Role::AttnV,      When::Always,         DType::Q5_K},
    Exception{"Q3_K_L", Role::FfnDown,    When::Always,         DType::Q5_K},
    Exception{"Q3_K_L", Role::AttnOutput, When::Always,         DType::Q5_K},
    Exception{"IQ4_NL", Role::AttnV,      When::WideGqa,        DType::Q5_K},
    Exception{"IQ4_NL", Role::FfnDown,    When::FirstEighth,    DType::Q5_K},
    Exception{"IQ4_XS", Role::AttnV,      When::WideGqa,        DType::Q5_K},
    Exception{"IQ4_XS", Role::FfnDown,    When::FirstEighth,    DType::Q5_K},
    Exception{"Q4_K_S", Role::AttnV,      When::FirstFour,      DType::Q5_K},
    Exception{"Q4_K_S", Role::FfnDown,    When::FirstEighth,    DType::Q5_K},
    Exception{"Q4_K_M", Role::AttnV,      When::MoreBits,       DType::Q6_K},
    Exception{"Q4_K_M", Role::FfnDown,    When::MoreBits,       DType::Q6_K},
    Exception{"Q5_K_M", Role::AttnV,      When::MoreBits,       DType::Q6_K},
    Exception{"Q5_K_M", Role::FfnDown,    When::MoreBits,       DType::Q6_K},
};
// clang-format on

struct RoleName {
  std::string_view substring;  // of the GGUF name
  Role role;
};

constexpr std::array kRoleNames = {
    RoleName{"token_embd.weight", Role::TokenEmbedding},
    RoleName{"attn_kv_b.weight", Role::AttnV},
    RoleName{"attn_v.weight", Role::AttnV},
    RoleName{"attn_k.weight", Role::AttnK},
    RoleName{"attn_output.weight", Role::AttnOutput},
    RoleName{"ffn_down", Role::FfnDown},
};

Role role_of(std::string_view name) {
  if (name == "output.weight") return Role::Output;
  const auto* row = std::ranges::find_if(kRoleNames, [&](const RoleName& r) {
    return name.find(r.substring) != std::string_view::npos;
  });
  return row == kRoleNames.end() ? Role::Other : row->role;
}

// The N of "blk.N.…", 0 for tensors outside the layers.
std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  std::int64_t layer = 0;
  if (name.starts_with(kPrefix))
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  return layer;
}

bool holds(When when, const ModelConfig& config, std::int64_t layer) {
  const std::int64_t num_layers = config.num_hidden_layers;
  switch (when) {
    case When::Always:
      return true;
    case When::WideGqa:
      return config.num_attention_heads >= 4 * config.num_key_value_heads;
    case When::EightExperts:
      return config.moe.num_experts == 8;
    case When::FirstTwo:
      return layer < 2;
    case When::FirstFour:
      return layer < 4;
    case When::FirstEighth:
      return layer < num_layers / 8;
    case When::FirstSixteenth:
      return layer < num_layers / 16;
    case When::MoreBits:
      return layer < num_layers / 8 || layer >= 7 * num_layers / 8 ||
             (layer - num_layers / 8) % 3 == 2;
  }
  return false;
}

DType wanted_type(const Mix& mix, const ModelConfig& config, const TensorShape& tensor) {
  if (!is_quantized(mix.base)) return mix.base;
  const Role role = role_of(tensor.name);
  const bool is_head =
      role == Role::Output || (role == Role::TokenEmbedding && config.tie_word_embeddings);
  if (mix.base == DType::MXFP4) {
    const bool is_expert = tensor.name.find("_exps.") != std::string_view::npos;
    return is_expert ? DType::MXFP4 : DType::Q8_0;
  }
  // The head keeps at least 6 bits: its error reaches every token's logits directly.
  if (is_head) return mix.base == DType::Q8_0 ? DType::Q8_0 : DType::Q6_K;
  const std::int64_t layer = layer_of(tensor.name);
  for (const Exception& row : kExceptions) {
    const bool same_mix = row.mix.empty() || row.mix == mix.name;
    if (same_mix && row.role == role && holds(row.when, config, layer)) return row.type;
  }
  return mix.base;
}

struct Fallback {
  DType type;
  DType smaller_block;  // blocks of 32 instead of 256 values, with at least as many bits
};

constexpr std::array kFallbacks = {
    Fallback{DType::Q2_K, DType::Q4_0}, Fallback{DType::Q3_K, DType::Q4_0},
    Fallback{DType::Q4_K, DType::Q5_0}, Fallback{DType::Q5_K, DType::Q5_1},
    Fallback{DType::Q6_K, DType::Q8_0}, Fallback{DType::IQ4_XS, DType::IQ4_NL},
};

}  // namespace

std::span<const Mix> mixes() {
  return kMixes;
}

const Mix& find_mix(std::string_view name) {
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  if (upper == "MXFP4_MOE") upper = "MXFP4";
  if (upper == "Q4_K" || upper == "Q5_K" || upper == "Q3_K") upper += "_M";
  const auto* row = std::ranges::find(kMixes, upper, &Mix::name);
  if (row != kMixes.end()) return *row;
  std::string known;
  for (const Mix& mix : kMixes)
    known.append(known.empty() ? "" : ", ").append(mix.name);
  fail("type \"", name, "\": unknown, expected one of ", known);
}

TypeChoice choose_type(const Mix& mix, const ModelConfig& config, const TensorShape& tensor) {
  const DType wanted = wanted_type(mix, config, tensor);
  const std::int64_t row_elems = tensor.shape.empty() ? 1 : tensor.shape.back();
  const auto fits = [&](DType type) { return row_elems % info(type).block_elems == 0; };
  if (fits(wanted)) return {wanted, wanted};
  const auto* row = std::ranges::find(kFallbacks, wanted, &Fallback::type);
  if (row != kFallbacks.end() && fits(row->smaller_block)) return {row->smaller_block, wanted};
  return {DType::F16, wanted};
}

bool is_quantizable(const TensorShape& tensor) {
  if (tensor.shape.size() < 2 || !tensor.name.ends_with("weight")) return false;
  // Routers select experts by small differences between logits, indexers positions: both stay
  // exact. The kernel of a convolution has a few values per channel.
  // Nor do biases of a compressor, hyper-connections and tables of experts lose any.
  constexpr std::array kExact = {"_norm.weight", "ffn_gate_inp", "indexer.proj",
                                 "ssm_conv1d",   "_ape.weight",  "hc_attn_fn",
                                 "hc_ffn_fn",    "output_hc_fn", "_tid2eid"};
  return std::ranges::none_of(kExact, [&](std::string_view part) {
    return tensor.name.find(part) != std::string_view::npos;
  });
}

}  // namespace graft::convert
