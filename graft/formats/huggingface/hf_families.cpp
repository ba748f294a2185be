#include "graft/formats/huggingface/hf_families.h"

#include <array>
#include <cstddef>

namespace graft::formats {
namespace {

// clang-format off
constexpr std::array kFamilies = {
    //                                        vocab hidden  inter layers heads kv head_dim context    eps    theta
    FamilyDefaults{Architecture::Llama,       32000,  4096, 11008,  32,   32,   0,   0,      2048,  1e-6,   10000.0},
    FamilyDefaults{Architecture::Mistral,     32000,  4096, 14336,  32,   32,   8,   0,    131072,  1e-6,   10000.0},
    FamilyDefaults{Architecture::Mixtral,     32000,  4096, 14336,  32,   32,   8,   0,    131072,  1e-5, 1000000.0},
    FamilyDefaults{Architecture::Qwen2,      151936,  4096, 22016,  32,   32,  32,   0,     32768,  1e-6,   10000.0},
    FamilyDefaults{Architecture::Qwen2Moe,   151936,  2048,  5632,  24,   16,  16,   0,     32768,  1e-6,   10000.0},
    FamilyDefaults{Architecture::Qwen3,      151936,  4096, 22016,  32,   32,  32, 128,     32768,  1e-6,   10000.0},
    FamilyDefaults{Architecture::Qwen3Moe,   151936,  2048,  6144,  24,   32,   4,   0,     32768,  1e-6,   10000.0},
    FamilyDefaults{Architecture::DeepseekV2,  32000,  4096, 11008,  32,   32,   0,   0,      2048,  1e-6,   10000.0},
    FamilyDefaults{Architecture::DeepseekV3, 129280,  7168, 18432,  61,  128, 128,   0,      4096,  1e-6,   10000.0},
    FamilyDefaults{Architecture::Glm4Moe,    151552,  4096, 10944,  46,   96,   8,   0,    131072,  1e-5,   10000.0},
    FamilyDefaults{Architecture::Llava,       32000,  4096, 11008,  32,   32,   0,   0,      2048,  1e-6,   10000.0},
};

constexpr std::array kMoe = {
    //                                    experts used inter shared dense groups used  norm   scale
    MoeDefaults{Architecture::Mixtral,        8,   2,     0,   0,    0,    1,    1,  true,   1.0},
    MoeDefaults{Architecture::Qwen2Moe,      60,   4,  1408,   1,    0,    1,    1,  false,  1.0},
    MoeDefaults{Architecture::Qwen3Moe,     128,   8,   768,   0,    0,    1,    1,  false,  1.0},
    MoeDefaults{Architecture::DeepseekV2,    64,   0,  1407,   2,    0,    1,    1,  false,  1.0},
    MoeDefaults{Architecture::DeepseekV3,   256,   8,  2048,   1,    3,    8,    4,  true,   2.5},
    MoeDefaults{Architecture::Glm4Moe,      128,   8,  1408,   1,    1,    1,    1,  true,   1.0},
};
// clang-format on

static_assert([] {
  for (std::size_t i = 0; i < kFamilies.size(); ++i) {
    if (static_cast<std::size_t>(kFamilies[i].architecture) != i) return false;
  }
  return true;
}());

}  // namespace

const FamilyDefaults& family_defaults(Architecture architecture) {
  return kFamilies[static_cast<std::size_t>(architecture)];
}

const MoeDefaults* moe_defaults(Architecture architecture) {
  for (const MoeDefaults& row : kMoe) {
    if (row.architecture == architecture) return &row;
  }
  return nullptr;
}

}  // namespace graft::formats
