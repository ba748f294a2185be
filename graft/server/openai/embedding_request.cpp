#include "graft/server/openai/embedding_request.h"

#include "graft/base/error.h"
#include "graft/server/fields.h"
#include "graft/server/openai/completion_request.h"

namespace graft::server::openai {

EmbeddingRequest read_embedding_request(const OrderedJson& body) {
  const Fields fields(body);
  fields.reject_unknown({"model", "lora", "input", "encoding_format", "dimensions", "user"});
  EmbeddingRequest request;
  request.model = read_model(fields);
  request.input = read_prompts(fields, "input");
  const std::string format = fields.string("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    fields.fail_at("encoding_format", str("expected 'float' or 'base64', got '", format, "'"));
  request.is_base64 = format == "base64";
  request.dimensions = fields.integer("dimensions", 1).value_or(0);
  return request;
}

}  // namespace graft::server::openai
