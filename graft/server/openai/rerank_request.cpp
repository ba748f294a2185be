#include "graft/server/openai/rerank_request.h"

#include <algorithm>

#include "graft/base/text/str.h"
#include "graft/server/fields.h"

namespace graft::server::openai {
namespace {

constexpr std::size_t kMaxDocuments = 2048;

// A text, {"text": …}, or a list of them.
std::vector<std::string> read_texts(const Fields& fields, const char* name) {
  const OrderedJson* given = fields.find(name);
  if (given == nullptr) fields.fail_at(name, "is missing");
  const OrderedJson list = given->is_array() ? *given : OrderedJson::array({*given});
  if (list.empty() || list.size() > kMaxDocuments)
    fields.fail_at(name, str("expected 1 to ", kMaxDocuments, " texts, got ", list.size()));
  std::vector<std::string> texts;
  for (const OrderedJson& item : list) {
    const bool has_text = item.is_object() && item.contains("text");
    const OrderedJson& text = has_text ? item["text"] : item;
    if (!text.is_string()) fields.fail_at(name, str("expected texts, got ", text.type_name()));
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace

RerankRequest read_rerank_request(const OrderedJson& body) {
  const Fields fields(body);
  fields.reject_unknown(
      {"model", "lora", "query", "documents", "top_n", "return_documents", "user"});
  RerankRequest request;
  request.model = read_model(fields);
  request.query = fields.required_string("query");
  request.documents = read_texts(fields, "documents");
  const auto num_documents = static_cast<std::int64_t>(request.documents.size());
  const std::int64_t top_n = fields.integer("top_n", 0).value_or(0);
  request.top_n =
      static_cast<std::size_t>(top_n == 0 ? num_documents : std::min(top_n, num_documents));
  request.return_documents = fields.boolean("return_documents").value_or(true);
  return request;
}

ScoreRequest read_score_request(const OrderedJson& body) {
  const Fields fields(body);
  fields.reject_unknown({"model", "lora", "text_1", "text_2", "queries", "documents", "user"});
  ScoreRequest request;
  request.model = read_model(fields);
  request.texts = read_texts(fields, fields.has("queries") ? "queries" : "text_1");
  const std::vector<std::string> second =
      read_texts(fields, fields.has("documents") ? "documents" : "text_2");
  const std::size_t num_first = request.texts.size();
  if (num_first != 1 && num_first != second.size()) {
    fields.fail_at("text_1", str("expected 1 text, or as many as text_2 has (", second.size(),
                                 "), got ", num_first));
  }
  for (std::size_t i = 0; i < second.size(); ++i)
    request.pairs.emplace_back(num_first == 1 ? 0 : i, num_first + i);
  request.texts.insert(request.texts.end(), second.begin(), second.end());
  return request;
}

}  // namespace graft::server::openai
