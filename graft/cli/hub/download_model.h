// Models that the command line names by their hub.

#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "graft/hub/model_ref.h"
#include "graft/hub/pull.h"
#include "graft/models/weights/checkpoint.h"

namespace graft::cli {

// Downloads a model with a progress bar on standard error; what is complete is not downloaded
// again. Throws Error.
std::filesystem::path download_model(const hub::ModelRef& ref);

// The model as it was downloaded before, else downloads it.
std::filesystem::path local_or_downloaded(const hub::ModelRef& ref);

// Reads only the headers of the remote files, for a plan: config.json and the beginning of each
// weight file. The tensors have their sizes and no data. Throws Error.
std::unique_ptr<models::Checkpoint> open_remote_header(const hub::RemoteModel& model,
                                                       const hub::Environment& env);

}  // namespace graft::cli
