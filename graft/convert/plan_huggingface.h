// The Hugging Face half of plan_job().

#pragma once

#include "graft/convert/job.h"

namespace graft::convert {

// Fills in recipes (types still to be chosen), metadata and notes of a job whose source is a
// Hugging Face checkpoint.
void plan_from_huggingface(Job& job);

}  // namespace graft::convert
