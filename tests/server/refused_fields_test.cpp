// No path of graft serve accepts a field and ignores it: unknown fields and images get 400.

#include <string>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"

#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

const Json kMessages = {{{"role", "user"}, {"content", "Hi"}}};

struct Path {
  const char* path;
  Json body;  // a valid request
};

const Path kPaths[] = {
    {"/v1/chat/completions", {{"messages", kMessages}, {"max_tokens", 1}}},
    {"/v1/chat/completions/input_tokens", {{"messages", kMessages}}},
    {"/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}}},
    {"/v1/responses", {{"input", "Hi"}, {"max_output_tokens", 1}}},
    {"/v1/embeddings", {{"input", "a"}}},
    {"/v1/rerank", {{"query", "a"}, {"documents", {"b"}}}},
    {"/v1/score", {{"text_1", "a"}, {"text_2", "b"}}},
    {"/v1/messages", {{"model", "sprout"}, {"messages", kMessages}, {"max_tokens", 1}}},
    {"/v1/messages/count_tokens", {{"model", "sprout"}, {"messages", kMessages}}},
    {"/tokenize", {{"prompt", "a"}}},
    {"/detokenize", {{"tokens", {5}}}},
    {"/completion", {{"prompt", "a"}, {"n_predict", 1}}},
    {"/apply-template", {{"messages", kMessages}}},
    {"/api/chat",
     {{"model", "sprout"}, {"messages", kMessages}, {"options", {{"num_predict", 1}}}}},
    {"/api/generate", {{"model", "sprout"}, {"prompt", "a"}, {"options", {{"num_predict", 1}}}}},
    {"/api/embed", {{"model", "sprout"}, {"input", "a"}}},
    {"/api/embeddings", {{"model", "sprout"}, {"prompt", "a"}}},
    {"/api/show", {{"model", "sprout"}}},
};

TEST(RefusedFields, UnknownOnesInEveryApi) {
  const ServerProcess server;
  for (const Path& each : kPaths) {
    EXPECT_EQ(post(server, each.path, each.body).status, 200) << each.path;
    for (const Json& value : {Json(1), Json(false), Json("")}) {
      Json body = each.body;
      body["frobnicate"] = value;
      const Reply reply = post(server, each.path, body);
      EXPECT_EQ(reply.status, 400) << each.path;
      EXPECT_NE(reply.body.find("frobnicate: is not a field of this request"), std::string::npos)
          << each.path << ": " << reply.body;
    }
    Json body = each.body;
    body["frobnicate"] = nullptr;
    EXPECT_EQ(post(server, each.path, body).status, 200) << each.path << ": null is no value";
    if (std::string(each.path).starts_with("/api/") && each.body.contains("options")) {
      body["options"]["temprature"] = 1;
      EXPECT_NE(post(server, each.path, body).body.find("options.temprature"), std::string::npos);
    }
  }
}

TEST(RefusedFields, ImagesInEveryApi) {
  const ServerProcess server;
  const Json url = "data:image/png;base64,iVBORw0KGgo=";
  const auto turn = [](const Json& part) {
    return Json::array({{{"role", "user"}, {"content", Json::array({part})}}});
  };
  const Json chat = turn({{"type", "image_url"}, {"image_url", {{"url", url}}}});
  const Json source = {{"type", "base64"}, {"media_type", "image/png"}, {"data", "iVBORw0KGgo="}};
  const Json block = {{"type", "image"}, {"source", source}};
  const Json with_images = {{{"role", "user"}, {"content", "Hi"}, {"images", {"iVBORw0KGgo="}}}};
  const Path requests[] = {
      {"/v1/chat/completions", {{"messages", chat}}},
      {"/v1/chat/completions", {{"messages", with_images}}},
      {"/v1/chat/completions/input_tokens", {{"messages", chat}}},
      {"/tokenize", {{"messages", chat}}},
      {"/apply-template", {{"messages", chat}}},
      {"/v1/responses", {{"input", turn({{"type", "input_image"}, {"image_url", url}})}}},
      {"/v1/messages", {{"model", "sprout"}, {"messages", turn(block)}, {"max_tokens", 1}}},
      {"/v1/messages/count_tokens", {{"model", "sprout"}, {"messages", turn(block)}}},
      {"/completion", {{"prompt", "a"}, {"image_data", {{{"data", "eA=="}, {"id", 1}}}}}},
      {"/v1/completions", {{"prompt", "a"}, {"multi_modal_data", {{"image", url}}}}},
      {"/api/chat", {{"model", "sprout"}, {"messages", with_images}}},
      {"/api/generate", {{"model", "sprout"}, {"prompt", "a"}, {"images", {"eA=="}}}},
  };
  for (const Path& each : requests) {
    const Reply reply = post(server, each.path, each.body);
    EXPECT_EQ(reply.status, 400) << each.path << ": " << reply.body;
    EXPECT_NE(reply.body.find("image"), std::string::npos) << each.path << ": " << reply.body;
  }
}

}  // namespace
}  // namespace graft::tests
