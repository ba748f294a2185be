// Where SamplingParams::min_indent and max_line_ms end an output: at a line that is indented too
// little, or at the end of a line.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graft/engine/sampling_params.h"

namespace graft::engine {

class LineLimits {
 public:
  explicit LineLimits(const SamplingParams& params)
      : min_indent_(params.min_indent), max_ms_(params.max_line_ms) {}

  // `text` is what follows in the output, `ms` the time since the first token. True: the output
  // ends here, and what comes after the end is cut off.
  bool cut(std::string& text, std::int64_t ms);

 private:
  std::int64_t min_indent_;
  std::optional<std::int64_t> max_ms_;
  // Blanks so far of a line that has nothing else yet; the first line is not indented.
  std::optional<std::int64_t> num_blanks_;
};

}  // namespace graft::engine
