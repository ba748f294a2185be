// The part of plan_job() that maps a Hugging Face checkpoint to GGUF tensors and metadata.

#pragma once

#include "graft/convert/job.h"

namespace graft::convert {

// Sets recipes, metadata and notes of a job whose source is a Hugging Face checkpoint. The types of
// the recipes are not chosen yet.
void plan_from_huggingface(Job& job);

}  // namespace graft::convert
