#include "graft/server/ollama/embed_request.h"

#include "graft/server/fields.h"
#include "graft/server/ollama/options.h"

namespace graft::server::ollama {

EmbedRequest read_embed(const OrderedJson& body, bool is_legacy) {
  const Fields fields(body);
  fields.reject_unknown({"model", "lora", is_legacy ? "prompt" : "input", "truncate", "dimensions",
                         "keep_alive", "options"});
  EmbedRequest request;
  request.texts = fields.strings(is_legacy ? "prompt" : "input");
  if (request.texts.empty()) fields.fail_at(is_legacy ? "prompt" : "input", "is missing");
  request.truncate = fields.boolean("truncate").value_or(true);
  request.dimensions = fields.integer("dimensions", 1).value_or(0);
  fields.required_string("model");
  request.model = read_model(fields);
  request.keep_alive_seconds = read_keep_alive(fields);
  request.num_ctx = read_options(fields).num_ctx;
  return request;
}

std::string read_show(const OrderedJson& body) {
  const Fields fields(body);
  fields.reject_unknown({"model", "name", "verbose"});
  if (fields.boolean("verbose").value_or(false))
    fields.fail_at("verbose", "is not supported: tensors and vocabularies are not listed");
  return fields.required_string(fields.has("model") ? "model" : "name");
}

}  // namespace graft::server::ollama
