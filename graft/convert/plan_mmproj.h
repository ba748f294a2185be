// The file of a LLaVA checkpoint's vision tower and projector, beside the GGUF file of its text
// model: what llama.cpp calls mmproj.

#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "graft/convert/job.h"
#include "graft/models/weights/checkpoint.h"

namespace graft::convert {

// Matrices become F32 for the type "F32", else F16. nullopt: the checkpoint has no vision tower, or
// is a GGUF file. `source` must outlive the job.
std::optional<Job> plan_mmproj(const models::Checkpoint& source, std::string_view type);

// Beside `out`: "mmproj-NAME.gguf" for NAME.gguf.
std::filesystem::path mmproj_path(const std::filesystem::path& out);

}  // namespace graft::convert
