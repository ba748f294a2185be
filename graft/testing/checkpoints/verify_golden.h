// Compares a golden checkpoint, or a conversion of it, with Transformers' outputs as they were
// computed (tests/golden/README.md): indexers that select in the order of PyTorch's topk, and RoPE
// frequencies rounded to BF16 for gpt-oss-mxfp4.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graft/models/weights/verify.h"
#include "graft/ops/params.h"
#include "graft/ops/registry.h"
#include "graft/quant/codec.h"
#include "graft/tensor/dtype.h"
#include "graft/testing/golden.h"
#include "graft/testing/indexer/reference_compressed_indexer.h"
#include "graft/testing/indexer/reference_indexer.h"

namespace graft::models::testing {

inline bool has_indexer(std::string_view checkpoint) {
  return checkpoint == "deepseek-v3.2" || checkpoint == "glm5" || checkpoint == "deepseek-v4";
}

// cpu.rope with frequencies rounded to BF16.
inline std::unique_ptr<ops::Operator> make_bf16_rope(const ops::BuildContext& context) {
  const auto& codec = quant::reference_codecs()[static_cast<std::size_t>(DType::BF16)];
  auto rope = context.params_as<ops::RopeParams>();
  for (float& frequency : rope.inv_freq) {
    std::array<std::byte, 2> rounded = {};
    codec.encode(&frequency, rounded.data(), 1);
    codec.decode(rounded.data(), &frequency, 1);
  }
  const ops::Params params = rope;
  ops::BuildContext rounded = context;
  rounded.params = &params;
  return ops::builtin_operators().find("cpu.rope")->make(rounded);
}

inline ops::Registry reference_operators() {
  ops::Registry registry = ops::builtin_operators();
  ops::testing::add_reference_indexer(registry);
  ops::testing::add_reference_compressed_indexer(registry);
  registry.add({.name = "reference.bf16_rope",
                .role = ops::Role::Rope,
                .summary = "frequencies rounded to BF16",
                .make = make_bf16_rope});
  return registry;
}

// How the reference of the checkpoint was computed.
inline VerifyOptions golden_options(std::string_view checkpoint) {
  VerifyOptions options;
  options.open.operators = [](int /*num_gpus*/) { return reference_operators(); };
  if (checkpoint == "gpt-oss-mxfp4")
    options.open.rules += "- match: {role: rope}\n  replace: {class: reference.bf16_rope}\n";
  if (!has_indexer(checkpoint)) return options;
  options.open.rules += checkpoint == "deepseek-v4" ? ops::testing::kReferenceCompressedIndexerRule
                                                    : ops::testing::kReferenceIndexerRule;
  return options;
}

// Runs the whole text for every token, as the references of models with an indexer were made: the
// order of equal scores depends on the length of the pass.
inline TokenIds generate_without_cache(Model& model, TokenIds text, std::size_t count) {
  TokenIds tokens;
  const auto vocab_size = static_cast<std::size_t>(model.vocab_size());
  while (tokens.size() < count) {
    const std::vector<float> logits = run_prompts(model, {&text, 1}).front().logits;
    const auto last = logits.end() - static_cast<std::ptrdiff_t>(vocab_size);
    tokens.push_back(static_cast<std::int32_t>(std::max_element(last, logits.end()) - last));
    text.push_back(tokens.back());
  }
  return tokens;
}

// `model_path`: the checkpoint, or a file converted from it.
inline VerifyReport verify_golden(std::string_view checkpoint,
                                  const std::filesystem::path& model_path,
                                  const VerifyOptions& options) {
  const std::filesystem::path reference = golden_checkpoint(checkpoint) / "reference.safetensors";
  if (!has_indexer(checkpoint)) return verify(model_path, reference, options);
  OpenModel open(model_path, options.open);
  VerifyReport report = verify(open.model(), reference, options);
  const std::vector<TokenIds> prompts = read_reference_prompts(reference);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    PromptReport& prompt = report.prompts.at(i);
    prompt.greedy = generate_without_cache(open.model(), prompts[i], prompt.expected_greedy.size());
  }
  return report;
}

}  // namespace graft::models::testing
