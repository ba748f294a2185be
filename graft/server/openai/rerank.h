// POST /v1/rerank and /v1/score: the cosine of the embeddings of two texts, by an embedding model.
// Cross-encoders are not supported.

#pragma once

#include "graft/server/handler_context.h"
#include "graft/server/http/exchange.h"

namespace graft::server::openai {

void rerank(const HandlerContext& context, const http::ExchangePtr& exchange);
void score(const HandlerContext& context, const http::ExchangePtr& exchange);

}  // namespace graft::server::openai
