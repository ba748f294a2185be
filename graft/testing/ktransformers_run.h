// For tests: runs golden checkpoints placed by KTransformers' rule files.

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/models/generate.h"
#include "graft/models/weights/verify.h"
#include "graft/ops/experts/expert_store.h"
#include "graft/testing/golden.h"
#include "graft/testing/ktransformers.h"
#include "graft/testing/placement.h"

namespace graft::models::testing {

// The largest number of GPUs of a file.
inline constexpr int kKTransformersGpus = 8;
// Layers of every golden checkpoint.
inline constexpr std::int64_t kGoldenLayers = 3;

// The logits [tokens, vocab] of prompts in every kind of pass: a prefill pass that is long enough
// to stream experts, a short one, and decode passes.
inline std::vector<std::vector<float>> logits_of_all_passes(Model& model,
                                                            const std::filesystem::path& folder) {
  std::vector<TokenIds> prompts = read_reference_prompts(folder / "reference.safetensors");
  const TokenIds first = prompts.front();
  TokenIds& longest = prompts.emplace_back();  // as long as the default of stream_from
  for (std::int32_t i = 0; i < 256; ++i)
    longest.push_back(7 * i % static_cast<std::int32_t>(model.vocab_size()));
  std::vector<std::vector<float>> logits;
  const auto run = [&](std::span<const TokenIds> batch, std::int64_t chunk) {
    for (PromptRun& prompt : run_prompts(model, batch, {.chunk = chunk}))
      logits.push_back(std::move(prompt.logits));
  };
  run(prompts, 0);
  run({&first, 1}, 0);
  run({&first, 1}, 1);
  return logits;
}

// A name that GoogleTest accepts.
inline std::string test_name_of(const KTransformersFile& file) {
  std::string name = file.name;
  for (char& c : name) {
    if (c == '-' || c == '/') c = '_';
  }
  return name;
}

}  // namespace graft::models::testing
