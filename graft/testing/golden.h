// Checkpoints of the tests, in Hugging Face's form. Their weights follow from recipes
// (tests/golden/README.md). The first call for a checkpoint writes it into the build folder; later
// calls, of this process or another, return the same folder and never write to it.

#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace graft {

// tests/golden/NAME: the weights and the reference results of Transformers.
std::filesystem::path golden_checkpoint(std::string_view name);

// tests/golden/NAME: a LoRA adapter of another checkpoint and the reference results of PEFT.
std::filesystem::path golden_adapter(std::string_view name);

// Every checkpoint of tests/golden, sorted by name.
std::vector<std::filesystem::path> golden_checkpoints();
// Every adapter of tests/golden, sorted by name.
std::vector<std::filesystem::path> golden_adapters();

// tests/sprout: the configuration, the tokenizer and the tensor shapes of Sprout in three shards.
// The weights are random; the trained ones are in bundled_sprout().
std::filesystem::path sprout_checkpoint();

// Writes the checkpoint of the recipe in `source` to `destination`, a folder that does not exist.
void write_checkpoint(const std::filesystem::path& source,
                      const std::filesystem::path& destination);

}  // namespace graft
