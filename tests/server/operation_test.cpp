// What an operator of graft serve sees: logs, readiness of a model that cannot be loaded, model
// files that change while they are in use.

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"

#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::filesystem::path copy_of_model(const TempDir& folder) {
  const std::filesystem::path path = folder / "copy.gguf";
  std::filesystem::copy_file(bundled_model(), path);
  return path;
}

TEST(ServerOperation, LogsModelsAndStepsAsJson) {
  const TempDir folder;
  const std::string log = folder / "log";
  {
    const ServerProcess server({"--log-level", "debug", "--log-format", "json"}, log);
    EXPECT_EQ(post(server, kChat, chat_body()).status, 200);
    EXPECT_EQ(post(server, "/api/chat", {{"model", "sprout"}, {"keep_alive", 0}}).status, 200);
    EXPECT_TRUE(
        eventually([&] { return file_text(log).find("\"model_unloaded\"") != std::string::npos; }));
  }
  std::set<std::string> events;
  for (const Json& line : lines(file_text(log))) {
    ASSERT_TRUE(line.is_object()) << line;
    EXPECT_TRUE(line["time"].is_string() && line["message"].is_string()) << line;
    const std::string event = line["event"];
    events.insert(event);
    if (event == "step") {
      EXPECT_EQ(line["level"], "debug");
      EXPECT_GT(line["tokens"].get<int>(), 0);
    }
    const bool is_unload = event == "model_unloaded";
    EXPECT_EQ(line.value("reason", ""), is_unload ? "requested" : "") << line;
    const bool is_of_model = event == "step" || event.starts_with("model_");
    EXPECT_EQ(line.value("model", ""), is_of_model ? "sprout" : "") << line;
  }
  for (const char* event : {"model_loading", "model_loaded", "step", "model_unloaded"})
    EXPECT_TRUE(events.contains(event)) << event;
}

TEST(ServerOperation, LogsPreemptions) {
  const TempDir folder;
  const std::string log = folder / "log";
  // Two long answers in a KV cache for one.
  const ServerProcess server({"--log-level", "debug", "--log-format", "json", "--kv-blocks", "16"},
                             log);
  Client first(server.port());
  Client second(server.port());
  first.post(kChat, endless_body());
  second.post(kChat, endless_body());
  EXPECT_TRUE(
      eventually([&] { return file_text(log).find("\"preemption\"") != std::string::npos; }));
}

TEST(ServerOperation, LogLevelHidesMessages) {
  const TempDir folder;
  const std::string log = folder / "log";
  {
    ServerProcess server({"--log-level", "error"}, log);
    EXPECT_EQ(post(server, kChat, chat_body()).status, 200);
    server.signal(SIGHUP);
    EXPECT_EQ(post(server, kChat, chat_body()).status, 200);
    server.signal(SIGINT);
    EXPECT_EQ(server.wait(), 0);
  }
  EXPECT_EQ(file_text(log), "");
}

TEST(ServerOperation, KeepsTheTraceparent) {
  const TempDir folder;
  const std::string log = folder / "access";
  const ServerProcess server({"--access-log", log});
  const std::string trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const Reply reply = post(server, kChat, chat_body(), {{"traceparent", trace}});
  EXPECT_EQ(reply.headers.at("traceparent"), trace);
  EXPECT_FALSE(
      post(server, kChat, chat_body(), {{"traceparent", "00-x"}}).headers.contains("traceparent"));
  EXPECT_TRUE(eventually([&] { return lines(file_text(log)).size() == 2; }));
  EXPECT_EQ(lines(file_text(log))[0]["traceparent"], trace);
  EXPECT_FALSE(lines(file_text(log))[1].contains("traceparent"));
}

TEST(ServerOperation, ReadySaysWhyTheModelCannotBeLoaded) {
  const TempDir folder;
  const std::filesystem::path path = copy_of_model(folder);
  const std::uintmax_t bytes = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, bytes / 2);
  const ServerProcess server(
      {"--model", "broken=" + path.string(), "--model", "sprout=" + bundled_model()});
  EXPECT_TRUE(eventually([&] {
    return get(server, "/ready").body.find("cannot be loaded: copy.gguf: ") != std::string::npos;
  })) << get(server, "/ready").body;
  EXPECT_EQ(get(server, "/ready").status, 503);
  EXPECT_EQ(get(server, "/health").status, 200);
  const Json models = get(server, "/v1/models").json()["data"];
  ASSERT_EQ(models.size(), 1U) << models;
  EXPECT_EQ(models[0]["id"], "sprout");
  EXPECT_EQ(post(server, kChat, chat_body({{"model", "sprout"}})).status, 200);
  EXPECT_EQ(get(server, "/ready").status, 503) << "requests without a model would fail";

  std::filesystem::remove(path);
  copy_of_model(folder);
  EXPECT_EQ(post(server, kChat, chat_body({{"model", "broken"}})).status, 200);
  EXPECT_EQ(get(server, "/ready").status, 200);
  EXPECT_EQ(get(server, "/v1/models").json()["data"].size(), 2U);
}

TEST(ServerOperation, ProbesOfReadyLoadTheModelAgain) {
  const TempDir folder;
  const std::filesystem::path path = copy_of_model(folder);
  std::filesystem::resize_file(path, 1000);
  const ServerProcess server({"--model", path.string()});
  EXPECT_TRUE(eventually(
      [&] { return get(server, "/ready").body.find("cannot be loaded") != std::string::npos; }));
  std::filesystem::remove(path);
  copy_of_model(folder);
  EXPECT_TRUE(eventually([&] { return get(server, "/ready").status == 200; }));
}

// Without repacking, the weights stay in the mapped file.
TEST(ServerOperation, ATruncatedModelFileFailsTheModelNotTheServer) {
  const TempDir folder;
  const std::filesystem::path path = copy_of_model(folder);
  const std::uintmax_t bytes = std::filesystem::file_size(path);
  const std::string log = folder / "log";
  const ServerProcess server(
      {"--model", "copy=" + path.string(), "--model", "sprout=" + bundled_model(), "--no-repack"},
      log);
  const std::string answer = post(server, kChat, chat_body({{"model", "copy"}})).body;
  ASSERT_NE(answer.find("content"), std::string::npos) << answer;
  std::filesystem::resize_file(path, 8192);
  const Reply failed = post(server, kChat, chat_body({{"model", "copy"}}));
  EXPECT_EQ(failed.status, 500);
  EXPECT_EQ(
      failed.json()["error"]["message"],
      "copy.gguf: was truncated while in use (8192 bytes, had " + std::to_string(bytes) + ")");
  EXPECT_EQ(post(server, kChat, chat_body({{"model", "sprout"}})).status, 200) << "other models";
  EXPECT_TRUE(eventually([&] { return get(server, "/ready").status == 503; }));
  EXPECT_NE(get(server, "/ready").body.find("copy.gguf: "), std::string::npos);
  EXPECT_EQ(post(server, kChat, chat_body({{"model", "copy"}})).status, 500)
      << "the file cannot be loaded";
  EXPECT_NE(file_text(log).find("copy.gguf: was truncated while in use"), std::string::npos);
  std::filesystem::remove(path);
  copy_of_model(folder);
  EXPECT_EQ(post(server, kChat, chat_body({{"model", "copy"}})).status, 200)
      << "the new file is loaded";
  EXPECT_EQ(get(server, "/ready").status, 200);
}

}  // namespace
}  // namespace graft::tests
