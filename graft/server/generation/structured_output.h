// Reads what the output must match, in the spellings of OpenAI, vLLM, SGLang, llama.cpp and Ollama.

#pragma once

#include <optional>
#include <string>

#include "graft/api/llm.h"
#include "graft/base/text/json.h"
#include "graft/server/fields.h"

namespace graft::server {

using graft::StructuredOutput;

// A structured output and the field of the request that has it, for messages.
struct StructuredField {
  std::string name;
  StructuredOutput output;
};

// The value of response_format (or text.format of the Responses API): {"type": "text"} is nothing,
// "json_object" any object, "json_schema" a schema beside the type or in "json_schema". Throws
// ApiError 400 that names `field`.
std::optional<StructuredOutput> read_response_format(const OrderedJson& format,
                                                     const std::string& field);

// Ollama's format: "json", a schema, or "" for nothing.
std::optional<StructuredOutput> read_ollama_format(const OrderedJson& format,
                                                   const std::string& field);

// response_format, structured_outputs, guided_*, grammar, json_schema and regex, of which a request
// may have one.
std::optional<StructuredField> read_structured_output(const Fields& fields);

}  // namespace graft::server
