#include "graft/server/openai/rerank.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "graft/server/fields.h"
#include "graft/server/generation/embedding.h"
#include "graft/server/generation/prompts.h"
#include "graft/server/json_text.h"
#include "graft/server/openai/rerank_request.h"
#include "graft/server/openai/wire.h"

namespace graft::server::openai {
namespace {

// Embeddings have length 1.
double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::string rerank_body(const RerankRequest& request,
                        const std::string& model,
                        const EmbeddingResult& embedded) {
  std::vector<std::pair<double, std::size_t>> order;  // score, document
  for (std::size_t i = 0; i < request.documents.size(); ++i)
    order.emplace_back(cosine(embedded.vectors[0], embedded.vectors[i + 1]), i);
  std::ranges::stable_sort(order, std::greater<>(), &std::pair<double, std::size_t>::first);
  order.resize(request.top_n);
  OrderedJson results = OrderedJson::array();
  for (const auto& [relevance, index] : order) {
    OrderedJson result = {{"index", index}, {"relevance_score", relevance}};
    if (request.return_documents) result["document"] = {{"text", request.documents[index]}};
    results.push_back(std::move(result));
  }
  return ordered_text(
      {{"id", new_identity("rerank", model).id},
       {"model", model},
       {"object", "list"},
       {"usage", {{"prompt_tokens", embedded.num_tokens}, {"total_tokens", embedded.num_tokens}}},
       {"results", results}});
}

std::string score_body(const ScoreRequest& request,
                       const std::string& model,
                       const EmbeddingResult& embedded) {
  OrderedJson data = OrderedJson::array();
  for (const auto& [first, second] : request.pairs) {
    data.push_back({{"index", data.size()},
                    {"object", "score"},
                    {"score", cosine(embedded.vectors[first], embedded.vectors[second])}});
  }
  const Identity identity = new_identity("score", model);
  return ordered_text(
      {{"id", identity.id},
       {"object", "list"},
       {"created", identity.created},
       {"model", model},
       {"data", data},
       {"usage", {{"prompt_tokens", embedded.num_tokens}, {"total_tokens", embedded.num_tokens}}}});
}

// Embeds the texts and responds with the body that `body` makes of them.
void respond_to(
    const HandlerContext& context,
    const http::ExchangePtr& exchange,
    const std::string& model,
    const std::vector<std::string>& texts,
    const std::function<std::string(const std::string&, const EmbeddingResult&)>& body) {
  context.with_model(exchange, model, [&context, exchange, texts, body](const Lease& lease) {
    check_num_texts(texts.size(), context.limits);
    EmbeddingInput input;
    for (const std::string& text : texts)
      input.texts.push_back(encode_prompt(*lease, text));
    embed_async(context, exchange, lease, std::move(input),
                [exchange, lease, body](const EmbeddingResult& embedded) {
                  exchange->respond({.body = body(lease.name(), embedded)});
                });
  });
}

}  // namespace

void rerank(const HandlerContext& context, const http::ExchangePtr& exchange) {
  const auto request =
      std::make_shared<const RerankRequest>(read_rerank_request(parse_body(exchange->take_body())));
  std::vector<std::string> texts = {request->query};
  texts.insert(texts.end(), request->documents.begin(), request->documents.end());
  respond_to(context, exchange, request->model, texts,
             [request](const std::string& model, const EmbeddingResult& embedded) {
               return rerank_body(*request, model, embedded);
             });
}

void score(const HandlerContext& context, const http::ExchangePtr& exchange) {
  const auto request =
      std::make_shared<const ScoreRequest>(read_score_request(parse_body(exchange->take_body())));
  respond_to(context, exchange, request->model, request->texts,
             [request](const std::string& model, const EmbeddingResult& embedded) {
               return score_body(*request, model, embedded);
             });
}

}  // namespace graft::server::openai
