// Compares a model with another implementation's results for the same weights: a reference file
// with prompts, logits, hidden states and greedy continuations.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "graft/models/generate.h"
#include "graft/models/open_model.h"

namespace graft::models {

// References are computed in float32; a 16-bit KV cache or int8 activations alone cause errors of
// 1e-3, and can select other experts when two scores are nearly equal.
inline constexpr std::string_view kExactCacheRule =
    "- match: {role: kv_cache}\n  replace: {class: default, kwargs: {dtype: f32}}\n";

struct VerifyOptions {
  std::int64_t chunk = 0;     // tokens per pass, 0: the whole prompt
  std::int32_t adapter = -1;  // of `open`; -1: the base model
  // Maximum |difference| / largest |value|. float32 implementations differ by about 1e-6 from each
  // other and by about 1e-2 from BF16 ones.
  double tolerance = 2e-3;
  OpenOptions open = {.rules = std::string(kExactCacheRule), .load = {.repack = false}};
};

struct PromptReport {
  std::string name;             // "a"
  std::int64_t num_tokens = 0;  // in the prompt
  double logit_error = 0;       // largest |difference| / largest |logit|
  std::vector<double>
      hidden_errors;         // the same for hidden states 0 … num_layers; empty: not in the file
  TokenIds expected_greedy;  // empty: not in the file
  TokenIds greedy;

  bool ok(double tolerance) const;
};

struct VerifyReport {
  double tolerance = 0;
  std::vector<PromptReport> prompts;

  bool ok() const;
  double largest_error() const;  // over logits and hidden states
};

// Throws Error when a file cannot be read or the reference does not belong to the model.
VerifyReport verify(Model& model,
                    const std::filesystem::path& reference,
                    const VerifyOptions& options = {});
VerifyReport verify(const std::filesystem::path& model_path,
                    const std::filesystem::path& reference,
                    const VerifyOptions& options = {});

// The reference's prompts "a", "b" …, in this order.
std::vector<TokenIds> read_reference_prompts(const std::filesystem::path& reference);

}  // namespace graft::models
