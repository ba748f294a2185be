// Ollama's paths that change the models of a running server, against a local server with the
// protocols of the hubs.

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/testing/hub/hub_peer.h"

#include "tests/program.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

class ServerLibrary : public ::testing::Test {
 protected:
  ServerLibrary() {
    std::ifstream in(bundled_model(), std::ios::binary);
    const std::string bytes = {std::istreambuf_iterator<char>(in), {}};
    peer_.add_file("org/sprout-GGUF", "sprout-Q6_K.gguf", bytes);
    peer_.add_ollama("library/sprout", "small", {{"model", bytes}});
    environment_ = peer_.environment(home_.path().string());
  }

  ServerProcess serve(const std::vector<std::string>& arguments = {}) const {
    return ServerProcess(arguments, {}, environment_);
  }

  static std::vector<std::string> names(const ServerProcess& server) {
    std::vector<std::string> all;
    const Json listed = get(server, "/api/tags").json();
    for (const Json& model : listed["models"])
      all.push_back(model["name"].get<std::string>());
    return all;
  }

  static std::string answer(const ServerProcess& server, const std::string& model) {
    const Reply reply = post(server, "/api/chat",
                             {{"model", model},
                              {"stream", false},
                              {"options", {{"temperature", 0}, {"num_predict", 4}}},
                              {"messages", {{{"role", "user"}, {"content", "Hello"}}}}});
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.body;
  }

  static int remove(const ServerProcess& server, const std::string& model) {
    const Json body = {{"model", model}};
    return ask(server, "DELETE", "/api/delete", body.dump()).status;
  }

  TempDir home_;
  hub::testing::HubPeer peer_;
  std::vector<std::string> environment_;
};

TEST_F(ServerLibrary, PullsModelsAndServesThem) {
  const ServerProcess server = serve();
  const Reply pulled = post(server, "/api/pull", {{"model", "sprout:small"}});
  EXPECT_EQ(pulled.headers.at("content-type"), "application/x-ndjson");
  const std::vector<Json> progress = lines(pulled.body);
  ASSERT_GE(progress.size(), 4U) << pulled.body;
  EXPECT_EQ(progress[0]["status"], "pulling manifest");
  EXPECT_EQ(progress[1]["status"].get<std::string>().size(), 8U + 12U);
  EXPECT_EQ(progress[1]["digest"].get<std::string>().substr(0, 7), "sha256:");
  EXPECT_EQ(progress.back()["status"], "success");
  answer(server, "sprout:small");
  // The only type of a repository, by the name of the repository.
  const Reply other = post(server, "/api/pull", {{"model", "org/sprout-GGUF"}, {"stream", false}});
  EXPECT_EQ(other.json()["status"], "success") << other.body;
  answer(server, "hf.co/org/sprout-GGUF");
  EXPECT_EQ(names(server),
            (std::vector<std::string>{"sprout", "sprout:small", "org/sprout-GGUF:Q6_K"}));
  EXPECT_EQ(remove(server, "sprout:small"), 200);
  EXPECT_EQ(remove(server, "sprout:small"), 404);
  EXPECT_EQ(remove(server, "org/sprout-GGUF"), 200);
  EXPECT_EQ(names(server), std::vector<std::string>{"sprout"});
  EXPECT_EQ(remove(server, "sprout"), 400) << "a file of the server";
}

TEST_F(ServerLibrary, ReportsWhatCannotBePulled) {
  const ServerProcess server = serve();
  const Reply streamed = post(server, "/api/pull", {{"model", "none"}});
  EXPECT_EQ(streamed.status, 200);
  EXPECT_TRUE(lines(streamed.body).back().contains("error")) << streamed.body;
  EXPECT_EQ(post(server, "/api/pull", {{"model", "none"}, {"stream", false}}).status, 500);
  for (const char* name : {"../x", "a/../../b", "ollama:../x", "hf:a/b:../../c", ""})
    EXPECT_EQ(post(server, "/api/pull", {{"model", name}}).status, 400) << name;
  EXPECT_EQ(post(server, "/api/pull", {{"model", "a"}, {"insecure", true}}).status, 400);
  EXPECT_EQ(post(server, "/api/pull", {{"model", "a"}, {"digest", "x"}}).status, 400);
}

TEST_F(ServerLibrary, SharesADownloadAndCancelsItWithTheLastClient) {
  peer_.add_fault({.target = "/blobs/", .times = 100, .pause_ms = 100});
  const ServerProcess server = serve();
  Client first(server.port());
  first.post("/api/pull", {{"model", "sprout:small"}});
  first.read_until("\"completed\"");
  Client second(server.port());
  second.post("/api/pull", {{"model", "sprout:small"}});
  second.read_until("\"completed\"");
  first.close();
  second.read_until("\"completed\"");
  EXPECT_EQ(get(server, "/health").status, 200);
  second.close();
  std::size_t num_manifests = 0;
  for (const auto& request : peer_.hub().requests())
    num_manifests += request.target.find("/manifests/") != std::string::npos ? 1 : 0;
  EXPECT_EQ(num_manifests, 1U) << "one download";
  EXPECT_EQ(names(server), std::vector<std::string>{"sprout"});
}

TEST_F(ServerLibrary, CreatedModelsKeepTheirSettingsOverARestart) {
  std::string first;
  {
    ServerProcess server = serve();
    const Reply created = post(
        server, "/api/create",
        {{"model", "short"},
         {"from", "sprout"},
         {"system", "You answer briefly."},
         {"messages",
          {{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"content", "Hello."}}}},
         {"parameters", {{"num_predict", 3}, {"stop", {"zz"}}}}});
    EXPECT_EQ(lines(created.body).back()["status"], "success") << created.body;
    const Json shown = post(server, "/api/show", {{"model", "short"}}).json();
    EXPECT_EQ(shown["system"], "You answer briefly.");
    EXPECT_NE(shown["parameters"].get<std::string>().find("num_predict 3"), std::string::npos);
    EXPECT_EQ(shown["details"]["parent_model"], "sprout");
    // The system prompt and the messages are in the prompt, and the parameters apply to all APIs.
    const Json body = {{"messages", {{{"role", "user"}, {"content", "Hello"}}}},
                       {"temperature", 0}};
    Json plain = body;
    plain["model"] = "sprout";
    plain["max_tokens"] = 3;
    Json short_model = body;
    short_model["model"] = "short";
    const Json base = post(server, kChat, plain).json();
    const Json changed = post(server, kChat, short_model).json();
    EXPECT_EQ(changed["usage"]["completion_tokens"], 3) << changed.dump();
    EXPECT_GT(changed["usage"]["prompt_tokens"], base["usage"]["prompt_tokens"].get<int>() + 10);
    EXPECT_EQ(post(server, "/api/copy", {{"source", "short"}, {"destination", "other:v2"}}).status,
              200);
    first = changed["choices"][0].dump();
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait(), 0);
  }
  const Outcome listed = run_program({"models"}, {.environment = environment_});
  EXPECT_NE(listed.out.find("short:latest"), std::string::npos) << listed.out;
  const ServerProcess again = serve({"--model", "short", "--model", "other:v2"});
  EXPECT_EQ(names(again), (std::vector<std::string>{"short:latest", "other:v2"}));
  const Json same = post(again, kChat,
                         {{"model", "other:v2"},
                          {"messages", {{{"role", "user"}, {"content", "Hello"}}}},
                          {"temperature", 0}})
                        .json();
  EXPECT_EQ(same["choices"][0].dump(), first);
  EXPECT_EQ(remove(again, "short"), 200);
  EXPECT_EQ(run_program({"rm", "other:v2"}, {.environment = environment_}).exit_code, 0);
  EXPECT_EQ(run_program({"models"}, {.environment = environment_}).out.find("created"),
            std::string::npos);
}

TEST_F(ServerLibrary, RefusesWhatItCannotCreate) {
  const ServerProcess server = serve();
  const auto create = [&](const Json& more) {
    Json body = {{"model", "x"}, {"from", "sprout"}};
    body.update(more);
    return post(server, "/api/create", body);
  };
  const Reply go = create({{"template", "{{ if .System }}{{ .System }}{{ end }}{{ .Prompt }}"}});
  EXPECT_EQ(go.status, 400);
  EXPECT_NE(go.body.find("Jinja"), std::string::npos) << go.body;
  EXPECT_EQ(create({{"template", "{% if %}"}}).status, 400);
  EXPECT_EQ(create({{"template", "chatml"}}).status, 200);
  EXPECT_EQ(create({{"from", "none"}}).status, 404);
  EXPECT_EQ(create({{"model", "sprout"}}).status, 400) << "a file of the server";
  EXPECT_EQ(create({{"model", "../x"}}).status, 400);
  for (const char* field : {"files", "adapters", "quantize", "modelfile", "renderer"})
    EXPECT_EQ(create({{field, "q4_K_M"}}).status, 400) << field;
  EXPECT_EQ(create({{"parameters", {{"mirostat", 1}}}}).status, 400);
  EXPECT_EQ(create({{"parameters", {{"temperature", "hot"}}}}).status, 400);
  EXPECT_EQ(create({{"messages", {{{"role", "ghost"}, {"content", 3}}}}}).status, 400);
}

TEST_F(ServerLibrary, NeedsAnAdminKeyOrTheFlag) {
  const TempDir folder;
  std::ofstream(folder.path() / "keys") << "one\nroot admin\n";
  const std::string keys = (folder.path() / "keys").string();
  const Json copy = {{"source", "sprout"}, {"destination", "copy"}};
  const auto key = [](const std::string& name) {
    return Headers{{"Authorization", "Bearer " + name}};
  };
  {
    const ServerProcess server = serve({"--api-key-file", keys});
    EXPECT_EQ(post(server, "/api/copy", copy, key("one")).status, 403);
    EXPECT_EQ(post(server, "/api/pull", {{"model", "a"}}, key("one")).status, 403);
    EXPECT_EQ(post(server, "/api/create", {{"model", "a"}}, key("one")).status, 403);
    EXPECT_EQ(ask(server, "DELETE", "/api/delete", "{}", key("one")).status, 403);
    EXPECT_EQ(post(server, "/api/copy", copy, key("root")).status, 200);
  }
  const ServerProcess open = serve({"--api-key-file", keys, "--allow-pull"});
  EXPECT_EQ(post(open, "/api/copy", copy, key("one")).status, 200);
  EXPECT_EQ(post(open, "/api/pull", {{"model", "http://127.0.0.1/x.gguf"}}, key("one")).status, 403)
      << "any URL only for admins";
  const ServerProcess proxied = serve({"--public-url", "https://chat.example"});
  EXPECT_EQ(post(proxied, "/api/copy", copy).status, 403) << "other machines reach it";
}

}  // namespace
}  // namespace graft::tests
