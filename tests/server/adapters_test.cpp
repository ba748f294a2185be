// LoRA adapters of a running server: named by requests of every API, loaded and unloaded.

#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/testing/checkpoints/peft_adapter.h"

#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

class ServerAdapters : public ::testing::Test {
 protected:
  ServerAdapters() {
    testing::write_peft_adapter(bundled_model(), folder_ / "one", 1, 0.3F);
    testing::write_peft_adapter(bundled_model(), folder_ / "two", 2, 0.3F);
  }

  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::vector<std::string> with_one() const { return {"--lora", "one=" + path("one")}; }

  static Json completion(const Json& more) {
    Json body = {{"prompt", "The weather"}, {"max_tokens", 8}, {"temperature", 0}};
    body.update(more);
    return body;
  }
  static std::string text(const ServerProcess& server, const Json& more) {
    const Reply reply = post(server, "/v1/completions", completion(more));
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.status == 200 ? reply.json()["choices"][0]["text"].get<std::string>() : "";
  }
  static std::string name_of(const ServerProcess& server) {
    return get(server, "/v1/models").json()["data"][0]["id"].get<std::string>();
  }

  TempDir folder_;
};

TEST_F(ServerAdapters, EveryApiSelectsOneByName) {
  const ServerProcess server(with_one());
  const std::string base = name_of(server);
  const std::string adapter = base + ":one";
  const std::string plain = text(server, {{"model", base}});
  const std::string adapted = text(server, {{"model", adapter}});
  EXPECT_NE(plain, adapted);
  EXPECT_EQ(text(server, {{"model", base}, {"lora", "one"}}), adapted);
  EXPECT_EQ(text(server, {{"lora", "one"}}), adapted);
  EXPECT_EQ(text(server, {{"lora", ""}}), plain);

  const Json messages = {{{"role", "user"}, {"content", "Hello"}}};
  const auto chat = [&](const char* path, Json body, const std::string& model) {
    body["model"] = model;
    const Reply reply = post(server, path, body);
    EXPECT_EQ(reply.status, 200) << path << reply.body;
    EXPECT_EQ(reply.json()["model"], model) << path;
    Json answer = reply.json();
    for (const char* key : {"id", "created", "created_at", "model", "timings", "completed_at"})
      answer.erase(key);
    return answer;
  };
  const Json short_chat = {{"messages", messages}, {"max_tokens", 8}, {"temperature", 0}};
  const auto content = [](const Json& answer) {
    return answer["choices"][0]["message"]["content"];
  };
  EXPECT_NE(content(chat("/v1/chat/completions", short_chat, base)),
            content(chat("/v1/chat/completions", short_chat, adapter)));
  EXPECT_NE(chat("/v1/messages", short_chat, base)["content"],
            chat("/v1/messages", short_chat, adapter)["content"]);
  const Json response = {{"input", "Hello"}, {"max_output_tokens", 16}, {"temperature", 0}};
  EXPECT_NE(chat("/v1/responses", response, base)["output"][0]["content"],
            chat("/v1/responses", response, adapter)["output"][0]["content"]);
  const Json ollama = {{"messages", messages},
                       {"stream", false},
                       {"options", {{"temperature", 0}, {"num_predict", 8}}}};
  EXPECT_NE(chat("/api/chat", ollama, base)["message"],
            chat("/api/chat", ollama, adapter)["message"]);
  EXPECT_NE(post(server, "/v1/embeddings", {{"model", base}, {"input", "x"}}).json()["data"],
            post(server, "/v1/embeddings", {{"model", adapter}, {"input", "x"}}).json()["data"]);
}

TEST_F(ServerAdapters, AreListedWithTheirBase) {
  const ServerProcess server(with_one());
  const Json models = get(server, "/v1/models").json()["data"];
  ASSERT_EQ(models.size(), 2U) << models.dump();
  const auto base = models[0]["id"].get<std::string>();
  EXPECT_EQ(models[1]["id"], base + ":one");
  EXPECT_EQ(models[1]["parent"], base);
  EXPECT_FALSE(models[0].contains("parent"));
  EXPECT_EQ(get(server, "/v1/models/" + base + ":one").json()["parent"], base);
}

TEST_F(ServerAdapters, UnknownOnesAreNotFound) {
  const ServerProcess server(with_one());
  const Reply reply = post(server, "/v1/completions", completion({{"lora", "three"}}));
  EXPECT_EQ(reply.status, 404) << reply.body;
  EXPECT_NE(reply.body.find("adapters of"), std::string::npos) << reply.body;
  EXPECT_EQ(post(server, "/v1/completions", completion({{"lora", {{{"id", 0}}}}})).status, 400);
  EXPECT_EQ(post(server, "/v1/completions", completion({{"lora_path", "/x"}})).status, 400);
}

TEST_F(ServerAdapters, AreLoadedAndUnloadedWhileServing) {
  const ServerProcess server(with_one());
  const std::string one = text(server, {{"lora", "one"}});
  const Json load = {{"lora_name", "two"}, {"lora_path", path("two")}};
  const Reply loaded = post(server, "/v1/load_lora_adapter", load);
  EXPECT_EQ(loaded.status, 200) << loaded.body;
  EXPECT_NE(text(server, {{"lora", "two"}}), one);
  EXPECT_EQ(get(server, "/v1/models").json()["data"].size(), 3U);
  const Reply again = post(server, "/v1/load_lora_adapter", load);
  EXPECT_EQ(again.status, 400);
  EXPECT_NE(again.body.find("already loaded"), std::string::npos) << again.body;
  EXPECT_EQ(post(server, "/v1/unload_lora_adapter", {{"lora_name", "one"}}).status, 200);
  EXPECT_EQ(post(server, "/v1/completions", completion({{"lora", "one"}})).status, 404);
  EXPECT_EQ(post(server, "/v1/unload_lora_adapter", {{"lora_name", "one"}}).status, 404);
  EXPECT_EQ(get(server, "/v1/models").json()["data"].size(), 2U);
  // The name can be used again, for other matrices.
  EXPECT_EQ(
      post(server, "/v1/load_lora_adapter", {{"lora_name", "one"}, {"lora_path", path("two")}})
          .status,
      200);
  EXPECT_EQ(text(server, {{"lora", "one"}}), text(server, {{"lora", "two"}}));
}

TEST_F(ServerAdapters, AnUnloadedOneServesItsRequestsToTheEnd) {
  const ServerProcess server(with_one());
  const Json body =
      completion({{"lora", "one"}, {"max_tokens", 200}, {"ignore_eos", true}, {"stream", true}});
  Client client(server.port());
  client.post("/v1/completions", body);
  client.read_until("data: ");
  EXPECT_EQ(post(server, "/v1/unload_lora_adapter", {{"lora_name", "one"}}).status, 200);
  const std::string rest = client.read_until("[DONE]");
  EXPECT_NE(rest.find("\"finish_reason\":\"length\""), std::string::npos) << rest;
}

TEST_F(ServerAdapters, WrongFilesAreErrorsWithoutFolders) {
  const ServerProcess server;
  const Reply reply =
      post(server, "/v1/load_lora_adapter", {{"lora_name", "x"}, {"lora_path", path("nowhere")}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body.find(folder_.path().string()), std::string::npos) << reply.body;
  EXPECT_EQ(post(server, "/v1/load_lora_adapter", {{"lora_name", "x"}}).status, 400);
  EXPECT_EQ(
      post(server, "/v1/load_lora_adapter", {{"lora_name", "a:b"}, {"lora_path", path("one")}})
          .status,
      400);
}

TEST_F(ServerAdapters, ChangesNeedAnAdminKeyWhereThereAreKeys) {
  std::ofstream(folder_ / "keys") << "plain\nroot admin\n";
  const ServerProcess server({"--api-key-file", path("keys"), "--allow-pull"});
  const Json body = {{"lora_name", "one"}, {"lora_path", path("one")}};
  const auto status = [&](const std::string& key) {
    return post(server, "/v1/load_lora_adapter", body, {{"Authorization", "Bearer " + key}}).status;
  };
  EXPECT_EQ(status("plain"), 403);
  EXPECT_EQ(status("root"), 200);
}

}  // namespace
}  // namespace graft::tests
