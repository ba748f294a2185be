#include "graft/server/adapters.h"

#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/models/lora/adapter.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"

namespace graft::server {
namespace {

// A path is one of the server: only admins may name files of it.
void check_allowed(const HandlerContext& context, const http::Request& request) {
  if (context.access.model_changes(request) == ModelChanges::All) return;
  throw ApiError(403,
                 str(request.path,
                     ": needs an admin key, which has the word admin after it in the file of "
                     "--api-key-file"),
                 {}, "admin_key_required");
}

std::string read_name(const Fields& fields) {
  std::string name = fields.required_string("lora_name");
  try {
    models::check_adapter_name(name);
  } catch (const Error& error) {
    fields.fail_at("lora_name", error.what());
  }
  return name;
}

// vLLM's field is base_model_name.
std::string read_base(const Fields& fields) {
  return fields.string(fields.has("model") ? "model" : "base_model_name").value_or("");
}

void load(const HandlerContext& context, const http::ExchangePtr& exchange) {
  check_allowed(context, exchange->request());
  const LoadAdapterRequest request = read_load_adapter(parse_body(exchange->take_body()));
  const std::string model = context.models.find(request.model).name;
  context.with_model(exchange, model, [&context, exchange, request](const Lease& lease) {
    try {
      lease->llm().load_adapter(request.source);
    } catch (const Error& error) {
      throw ApiError(400, without_folders(error.what()), "lora_path");
    }
    context.models.add_adapter(lease->name(), request.source);
    exchange->respond(
        {.body = str("loaded adapter '", request.source.name, "' of ", lease->name(), '\n'),
         .content_type = "text/plain; charset=utf-8"});
  });
}

void unload(const HandlerContext& context, const http::ExchangePtr& exchange) {
  check_allowed(context, exchange->request());
  const UnloadAdapterRequest request = read_unload_adapter(parse_body(exchange->take_body()));
  const std::string model = context.models.find(request.model).name;
  context.with_model(exchange, model, [&context, exchange, request](const Lease& lease) {
    context.models.remove_adapter(lease->name(), request.name);
    if (!lease->llm().unload_adapter(request.name)) {
      throw ApiError(404, str("adapter '", request.name, "' of ", lease->name(), " not found"),
                     "lora_name", "adapter_not_found");
    }
    exchange->respond(
        {.body = str("unloaded adapter '", request.name, "' of ", lease->name(), '\n'),
         .content_type = "text/plain; charset=utf-8"});
  });
}

}  // namespace

LoadAdapterRequest read_load_adapter(const OrderedJson& body) {
  constexpr double kMaxScale = 1e6;
  const Fields fields(body);
  fields.reject_unknown({"lora_name", "lora_path", "model", "base_model_name", "scale"});
  LoadAdapterRequest request = {.model = read_base(fields)};
  request.source.name = read_name(fields);
  request.source.path = fields.required_string("lora_path");
  if (request.source.path.empty()) fields.fail_at("lora_path", "is empty");
  request.source.scale = fields.number("scale", -kMaxScale, kMaxScale).value_or(1.0);
  return request;
}

UnloadAdapterRequest read_unload_adapter(const OrderedJson& body) {
  const Fields fields(body);
  fields.reject_unknown({"lora_name", "lora_int_id", "model", "base_model_name"});
  fields.reject("lora_int_id", "is not supported: lora_name names the adapter");
  return {.model = read_base(fields), .name = read_name(fields)};
}

void add_adapter_routes(Router& router, const HandlerContext& context) {
  router.add("POST", "/v1/load_lora_adapter",
             [&context](const http::ExchangePtr& exchange) { load(context, exchange); });
  router.add("POST", "/v1/unload_lora_adapter",
             [&context](const http::ExchangePtr& exchange) { unload(context, exchange); });
}

}  // namespace graft::server
