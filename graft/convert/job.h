// A planned conversion to GGUF: the metadata and tensors of the file to write. Planning reads
// headers only; run() streams the tensors, so that memory is bounded by a few chunks of one tensor.

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
#include "graft/models/weights/checkpoint.h"

namespace graft::convert {

struct Job {
  const models::Checkpoint* source = nullptr;
  formats::GgufMetadata metadata;
  std::vector<Recipe> recipes;
  std::vector<std::string> notes;  // for the user, one line each: type fallbacks, dropped tensors

  std::uint64_t input_bytes() const;
  std::uint64_t output_bytes() const;  // of tensor data
};

// A GGUF source keeps its tensors and changes their types. A Hugging Face source is also renamed,
// merged and permuted into GGUF's layout. `type` is the name of a mix, or "auto" for the type of
// the checkpoint (BF16 for FP8 checkpoints). Throws Error when tensors are missing or have wrong
// shapes.
Job plan_job(const models::Checkpoint& source, std::string_view type);

// Writes the file; `progress` counts input bytes. Throws Error. The file gets its name only when it
// is complete.
void run(const Job& job, const std::filesystem::path& out, ThreadPool& pool, Progress& progress);

}  // namespace graft::convert
