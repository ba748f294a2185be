// LoRA adapters at run time, under vLLM's paths: POST /v1/load_lora_adapter and
// /v1/unload_lora_adapter.

#pragma once

#include <optional>
#include <string>

#include "graft/base/text/json.h"
#include "graft/llm.h"
#include "graft/server/handler_context.h"
#include "graft/server/router.h"

namespace graft::server {

struct LoadAdapterRequest {
  std::string model = {};  // empty: the first
  AdapterSource source = {};
};
struct UnloadAdapterRequest {
  std::string model = {};
  std::string name = {};
};

// Throw ApiError 400.
LoadAdapterRequest read_load_adapter(const OrderedJson& body);
UnloadAdapterRequest read_unload_adapter(const OrderedJson& body);

void add_adapter_routes(Router& router, const HandlerContext& context);

}  // namespace graft::server
