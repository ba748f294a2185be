// llama.cpp's field "samplers": the steps of sampling and their order.

#pragma once

#include "graft/server/fields.h"
#include "graft/server/openai/sampling.h"

namespace graft::server::openai {

// Sets the steps, and turns off what the list does not name. Throws ApiError 400 for a name that
// is unknown or cannot stand where it does.
void read_samplers(const Fields& fields, Sampling& sampling);

}  // namespace graft::server::openai
