// /v1/sequences of `graft serve`: answers that are saved while they run go on in another process.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"

#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

namespace fs = std::filesystem;

class ServerSequences : public testing::Test {
 protected:
  void SetUp() override { fs::create_directory(dir()); }

  fs::path dir() const { return folder_ / "saved"; }
  std::vector<std::string> arguments(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--snapshot-dir", dir().string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  static Json completion(int num_words, const Json& more = Json::object()) {
    std::string prompt = "Count:";
    for (int i = 0; i < num_words; ++i)
      prompt += " " + std::to_string(i % 10);
    Json body = {{"prompt", prompt},
                 {"temperature", 0},
                 {"max_tokens", 300},
                 {"ignore_eos", true},
                 {"stream", true}};
    body.update(more);
    return body;
  }
  static std::string text_of(const std::vector<Json>& events) {
    std::string text;
    for (const Json& event : events) {
      if (event.is_object() && !event["choices"].empty())
        text += event["choices"][0]["text"].get<std::string>();
    }
    return text;
  }
  // Starts a stream, saves it once `num_events` chunks have arrived, and returns its whole text.
  static std::string save_and_read(const ServerProcess& server,
                                   const std::string& id,
                                   const Json& body,
                                   int num_events) {
    Client client(server.port());
    client.send(request_text("POST", "/v1/completions", body.dump(), {{"x-request-id", id}}));
    if (num_events == 0) {
      // Before the first token.
      EXPECT_TRUE(eventually([&] { return num_listed(server) == 1; }));
    }
    std::string begin;
    for (int i = 0; i < num_events; ++i)
      begin += client.read_until("\n\n");
    const Reply saved = post(server, "/v1/sequences/" + id + "/save", Json::object());
    EXPECT_EQ(saved.status, 200) << saved.body;
    EXPECT_EQ(saved.json()["filename"], id);
    EXPECT_EQ(saved.json()["bytes"], fs::file_size(fs::path(last_dir) / id));
    const std::string rest = client.read_until("[DONE]\n\n");
    return text_of(events((begin + rest).substr((begin + rest).find("data: "))));
  }
  static std::size_t num_listed(const ServerProcess& server) {
    return get(server, "/v1/sequences").json()["data"].size();
  }

  TempDir folder_;
  inline static std::string last_dir;
};

TEST_F(ServerSequences, GoOnInAnotherProcess) {
  last_dir = dir().string();
  // Small steps: the long prompt is saved while it is computed.
  const std::vector<std::string> steps = {"--max-num-batched-tokens", "16", "--max-num-seqs", "8"};
  std::string decoding;
  std::string prefilling;
  {
    ServerProcess server(arguments(steps));
    decoding = save_and_read(server, "decoding", completion(20), 20);
    prefilling = save_and_read(server, "prefilling", completion(900, {{"max_tokens", 30}}), 0);
    EXPECT_TRUE(eventually([&] { return num_listed(server) == 0; }));
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait(), 0);
  }
  const auto mode = fs::status(dir() / "decoding").permissions();
  EXPECT_EQ(mode, fs::perms::owner_read | fs::perms::owner_write);

  const ServerProcess server(arguments());
  const Reply echoed = post(server, "/v1/sequences/decoding/restore", {{"echo", true}});
  ASSERT_EQ(echoed.status, 200) << echoed.body;
  EXPECT_EQ(echoed.json()["choices"][0]["text"], decoding);
  EXPECT_EQ(echoed.json()["usage"]["completion_tokens"], 300);
  const Reply rest = post(server, "/v1/sequences/x/restore", {{"filename", "decoding"}});
  const std::string tail = rest.json()["choices"][0]["text"];
  EXPECT_LT(tail.size(), decoding.size());
  EXPECT_TRUE(decoding.ends_with(tail));

  Client client(server.port());
  client.post("/v1/sequences/prefilling/restore",
              {{"stream", true}, {"stream_options", {{"include_usage", true}}}});
  const Reply stream = client.read_reply();
  EXPECT_EQ(text_of(events(stream.body)), prefilling);
  EXPECT_NE(stream.body.find(R"("completion_tokens":30)"), std::string::npos);
  EXPECT_EQ(fs::exists(dir() / "decoding"), true);
}

TEST_F(ServerSequences, RefusesWhatCannotBeSavedOrRestored) {
  last_dir = dir().string();
  ServerProcess server(arguments());
  const auto fails = [&](const std::string& path, const Json& body, int status,
                         const std::string& message) {
    const Reply reply = post(server, "/v1/sequences/" + path, body);
    EXPECT_EQ(reply.status, status) << path << reply.body;
    EXPECT_NE(reply.body.find(message), std::string::npos) << path << reply.body;
    EXPECT_EQ(reply.body.find(dir().string()), std::string::npos) << reply.body;
  };
  fails("none/save", Json::object(), 404, "no running request");
  fails("none/restore", Json::object(), 404, "no saved sequence");
  fails("none", Json::object(), 404, "no such path");
  fails("none/restore", {{"filename", "../saved/x"}}, 400, "filename");
  fails("none/save", {{"filename", "/tmp/x"}}, 400, "filename");
  fails("none/restore", {{"model", "missing"}, {"filename", "none"}}, 404, "no saved sequence");
  fs::create_directory(dir() / "folder");
  fails("folder/restore", Json::object(), 404, "no saved sequence");

  save_and_read(server, "good", completion(20, {{"max_tokens", 60}}), 5);
  {
    Client client(server.port());
    client.send(request_text("POST", "/v1/completions", completion(20).dump(),
                             {{"x-request-id", "running"}}));
    client.read_until("data: ");
    fails("running/save", {{"prompt", 1}}, 400, "prompt: 1 of 1");
    fails("running/save", {{"sample", 1}}, 400, "sample: 1 of 1");
  }
  fails("good/restore", {{"model", "missing"}}, 404, "missing");
  std::string bytes;
  {
    std::ifstream in(dir() / "good", std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto write = [&](const std::string& content) {
    std::ofstream(dir() / "bad", std::ios::binary) << content;
  };
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{10}, bytes.size() / 2, bytes.size() - 1}) {
    write(bytes.substr(0, size));
    fails("bad/restore", Json::object(), 400, size <= 10 ? "bad: " : "damaged");
  }
  std::string changed = bytes;
  changed[changed.size() / 2] = static_cast<char>(changed[changed.size() / 2] ^ 1);
  write(changed);
  fails("bad/restore", Json::object(), 400, "damaged: checksum mismatch");
  write(bytes);
  EXPECT_EQ(post(server, "/v1/sequences/bad/restore", Json::object()).status, 200);
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);

  const ServerProcess other(arguments({"--kv-cache-dtype", "q8_0"}));
  const Reply reply = post(other, "/v1/sequences/good/restore", Json::object());
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("saved with KV cache layout"), std::string::npos) << reply.body;
}

TEST_F(ServerSequences, NeedAnAdminKeyAndAFolder) {
  std::ofstream(folder_ / "keys") << "one\nroot admin\n";
  {
    const ServerProcess server(arguments({"--api-key-file", folder_ / "keys"}));
    const auto status = [&](const std::string& key) {
      return post(server, "/v1/sequences/x/restore", Json::object(), {{"x-api-key", key}}).status;
    };
    EXPECT_EQ(status("one"), 403);
    EXPECT_EQ(status("root"), 404);
    EXPECT_EQ(ask(server, "GET", "/v1/sequences", {}, {{"x-api-key", "one"}}).status, 403);
    EXPECT_EQ(ask(server, "GET", "/v1/sequences", {}, {{"x-api-key", "root"}}).status, 200);
  }
  const ServerProcess server;
  EXPECT_EQ(post(server, "/v1/sequences/x/save", Json::object()).status, 501);
}

}  // namespace
}  // namespace graft::tests
