// A conversion planned but not begun: the metadata and tensors of the file to write. Planning reads
// headers only; run() streams the tensors through with memory bounded by a few pieces of one
// tensor.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "graft/base/parallel.h"
#include "graft/base/progress.h"
#include "graft/convert/mix.h"
#include "graft/convert/recipe.h"
#include "graft/formats/gguf/metadata.h"
#include "graft/models/checkpoint.h"

namespace graft::convert {

struct Job {
  const models::Checkpoint* source = nullptr;
  formats::GgufMetadata metadata;
  std::vector<Recipe> recipes;
  std::vector<std::string> notes;  // fallbacks and other things a user should know, a line each

  std::uint64_t input_bytes() const;
  std::uint64_t output_bytes() const;  // of tensor data
};

// From a GGUF file: same tensors, new types. From a Hugging Face folder: renamed, merged and
// permuted into GGUF as well. `type` is the name of a mix, or "auto": the type the checkpoint has
// (BF16 for FP8 checkpoints). Throws Error when tensors are missing or do not fit.
Job plan_job(const models::Checkpoint& source, std::string_view type);

// Writes the file; `progress` counts input bytes. Throws Error; the file appears only when
// complete.
void run(const Job& job, const std::filesystem::path& out, ThreadPool& pool, Progress& progress);

}  // namespace graft::convert
