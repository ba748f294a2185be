// The requests of POST /completion and /infill of llama.cpp's server, parsed and validated. Pure:
// JSON in, values out.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/server/openai/sampling.h"

namespace graft::server::llamacpp {

struct Request {
  std::string model = {};  // empty: the server's first model
  api::Prompt prompt = {};
  openai::Sampling sampling = {};
  bool is_stream = false;
  bool return_tokens = false;
  bool is_prompt_only = false;  // n_predict is 0: computes the prompt for the prefix cache
  // Of the response, "a/b" names a field of a nested object; empty: all.
  std::vector<std::string> response_fields = {};
  // infill: the prompt is the text before the gap.
  bool is_infill = false;
  std::string suffix = {};
  std::vector<std::pair<std::string, std::string>> files = {};  // name and text
};

// Both throw ApiError 400 that names the field.
Request read_completion(const OrderedJson& body);
Request read_infill(const OrderedJson& body);

}  // namespace graft::server::llamacpp
