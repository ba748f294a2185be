// /v1/rerank and /v1/score without sockets.

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/openai/rerank_request.h"

namespace graft::server::openai {
namespace {

TEST(RerankRequest, ReadsDocuments) {
  const RerankRequest request = read_rerank_request(
      parse_body(R"({"model":"m","query":"q","documents":["a",{"text":"b"}],"top_n":5})"));
  EXPECT_EQ(request.documents, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.top_n, 2U);
  EXPECT_TRUE(request.return_documents);
  for (const char* body :
       {R"({"documents":["a"]})", R"({"query":"q"})", R"({"query":"q","documents":[]})",
        R"({"query":"q","documents":[1]})", R"({"query":"q","documents":["a"],"top_n":-1})"})
    EXPECT_THROW(read_rerank_request(parse_body(body)), ApiError) << body;
}

TEST(ScoreRequest, PairsTexts) {
  using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;
  EXPECT_EQ(read_score_request(parse_body(R"({"text_1":"a","text_2":["b","c"]})")).pairs,
            (Pairs{{0, 1}, {0, 2}}));
  EXPECT_EQ(read_score_request(parse_body(R"({"text_1":["a","b"],"text_2":["c","d"]})")).pairs,
            (Pairs{{0, 2}, {1, 3}}));
  EXPECT_EQ(read_score_request(parse_body(R"({"queries":"a","documents":"b"})")).pairs,
            (Pairs{{0, 1}}));
  EXPECT_THROW(read_score_request(parse_body(R"({"text_1":["a","b"],"text_2":["c"]})")), ApiError);
  EXPECT_THROW(read_score_request(parse_body(R"({"text_1":"a"})")), ApiError);
}

}  // namespace
}  // namespace graft::server::openai
