// A model with the name under which a server or a batch answers for it.

#pragma once

#include <string>

#include "graft/api/catalog.h"
#include "graft/server/models/model_pool.h"

namespace graft::cli {

// `text` is NAME=PATH, a path, or the name of a model in the catalog; empty: the bundled model.
// Without NAME, the name is that of the catalog, else of the file or folder. Throws Error.
server::NamedPath named_model(const std::string& text, const api::Catalog& catalog);

}  // namespace graft::cli
