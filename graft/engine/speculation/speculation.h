// The text form of Speculation, in flags and requests: "off", "auto", "ngram" or "ngram:N,K" with
// min_match N and max_tokens K.

#pragma once

#include <string>
#include <string_view>

#include "graft/sampling_params.h"

namespace graft::engine {

using graft::Speculation;

// Throws Error, which names the forms.
Speculation parse_speculation(std::string_view text);
std::string to_string(const Speculation& speculation);

}  // namespace graft::engine
