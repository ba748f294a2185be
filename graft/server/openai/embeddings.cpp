#include "graft/server/openai/embeddings.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "graft/server/fields.h"
#include "graft/server/generation/embedding.h"
#include "graft/server/generation/prompts.h"
#include "graft/server/json_text.h"
#include "graft/server/openai/embedding_request.h"

namespace graft::server::openai {
namespace {

std::string body_of(const EmbeddingRequest& request,
                    const std::string& model,
                    const EmbeddingResult& embedded) {
  OrderedJson data = OrderedJson::array();
  for (const std::vector<float>& vector : embedded.vectors) {
    OrderedJson entry = {{"object", "embedding"}, {"index", data.size()}};
    if (request.is_base64) {
      entry["embedding"] = base64_floats(vector);
    } else {
      entry["embedding"] = vector;
    }
    data.push_back(std::move(entry));
  }
  return ordered_text(
      {{"object", "list"},
       {"data", data},
       {"model", model},
       {"usage", {{"prompt_tokens", embedded.num_tokens}, {"total_tokens", embedded.num_tokens}}}});
}

}  // namespace

std::string base64_floats(const std::vector<float>& values) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::uint8_t> bytes(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t j = 0; j < 3; ++j)
      bits = (bits << 8U) | (j < count ? bytes[i + j] : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += j <= count ? kDigits[(bits >> (18U - 6U * j)) & 63U] : '=';
  }
  return text;
}

void embeddings(const HandlerContext& context, const http::ExchangePtr& exchange) {
  auto request = std::make_shared<const EmbeddingRequest>(
      read_embedding_request(parse_body(exchange->take_body())));
  context.with_model(exchange, request->model, [&context, exchange, request](const Lease& lease) {
    check_num_texts(request->input.size(), context.limits);
    // Base64: 4 characters per 3 bytes.
    EmbeddingInput input = {.bytes_per_value = request->is_base64 ? std::size_t{6} : 12,
                            .dimensions = request->dimensions};
    for (const api::Prompt& prompt : request->input)
      input.texts.push_back(encode_prompt(*lease, prompt));
    embed_async(context, exchange, lease, std::move(input),
                [exchange, lease, request](const EmbeddingResult& embedded) {
                  exchange->respond({.body = body_of(*request, lease.name(), embedded)});
                });
  });
}

}  // namespace graft::server::openai
