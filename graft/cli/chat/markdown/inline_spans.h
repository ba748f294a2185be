// Spans within a line of Markdown: emphasis, code and links.

#pragma once

#include <cstddef>
#include <string_view>

#include "graft/cli/chat/markdown/text_style.h"

namespace graft::cli {

// Passes the text of `line` from `at` to the sink, without the markers. Returns where it stopped:
// at a marker whose end is not there yet, unless the line is complete. A marker without an end is
// text. The result does not depend on how the line is divided.
std::size_t render_inline(std::string_view line,
                          std::size_t at,
                          bool is_complete,
                          const TextStyle& style,
                          const StyledSink& sink);

}  // namespace graft::cli
