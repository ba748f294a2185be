// Requests that programs sent (tests/server/fixtures/clients): every one must be served, with the
// events and fields that these programs read.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> request_files() {
  std::vector<fs::path> files;
  for (const auto& entry :
       fs::recursive_directory_iterator(GRAFT_SOURCE_DIR "/tests/server/fixtures/clients")) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

Json read_json(const fs::path& path) {
  std::ifstream file(path);
  return Json::parse(std::string(std::istreambuf_iterator<char>(file), {}), nullptr, false);
}

// The data of named events, in order.
std::vector<Json> typed_events(const std::string& stream) {
  std::vector<Json> found;
  for (std::size_t at = stream.find("event: "); at != std::string::npos;
       at = stream.find("event: ", at + 1)) {
    const std::size_t data = stream.find("\ndata: ", at);
    const std::size_t end = stream.find("\n\n", at);
    found.push_back(Json::parse(stream.substr(data + 7, end - data - 7), nullptr, false));
    EXPECT_EQ(found.back().value("type", ""), stream.substr(at + 7, data - at - 7));
  }
  return found;
}

void check_usage(const Json& usage, const std::string& input, const std::string& output) {
  EXPECT_TRUE(usage.is_object() && usage.contains(input) && usage.contains(output)) << usage;
  EXPECT_GT(usage.value(output, 0), 0) << usage;
}

// One block is open at a time, blocks are numbered from 0.
void check_messages_stream(const std::string& body) {
  const std::vector<Json> events = typed_events(body);
  ASSERT_GE(events.size(), 3U) << body;
  EXPECT_EQ(events.front()["type"], "message_start");
  EXPECT_EQ(events.front()["message"]["role"], "assistant");
  EXPECT_EQ(events.back()["type"], "message_stop");
  const Json& delta = events[events.size() - 2];
  EXPECT_EQ(delta["type"], "message_delta") << body;
  const std::set<std::string> reasons = {"end_turn", "max_tokens", "tool_use"};
  EXPECT_TRUE(reasons.contains(delta["delta"].value("stop_reason", ""))) << delta;
  check_usage(delta["usage"], "output_tokens", "output_tokens");
  int num_blocks = 0;
  bool is_open = false;
  for (const Json& event : events) {
    const std::string type = event["type"];
    if (!type.starts_with("content_block_")) continue;
    EXPECT_EQ(is_open, type != "content_block_start") << body;
    is_open = type != "content_block_stop";
    EXPECT_EQ(event["index"], num_blocks) << body;
    num_blocks += is_open ? 0 : 1;
  }
  EXPECT_FALSE(is_open);
}

void check_responses_stream(const std::string& body) {
  const std::vector<Json> events = typed_events(body);
  ASSERT_GE(events.size(), 3U) << body;
  EXPECT_EQ(events[0]["type"], "response.created");
  EXPECT_EQ(events[1]["type"], "response.in_progress");
  const std::string last = events.back()["type"];
  EXPECT_TRUE(last == "response.completed" || last == "response.incomplete") << last;
  const Json& response = events.back()["response"];
  check_usage(response["usage"], "input_tokens", "output_tokens");
  std::vector<Json> done;
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
    if (events[i]["type"] == "response.output_item.done") done.push_back(events[i]["item"]);
  }
  EXPECT_EQ(response["output"], Json(done));
}

void check_chat_stream(const std::string& body, bool wants_usage) {
  std::vector<Json> chunks = events(body);
  ASSERT_GE(chunks.size(), 3U) << body;
  EXPECT_EQ(chunks.back(), "[DONE]");
  chunks.pop_back();
  EXPECT_EQ(chunks.front()["choices"][0]["delta"]["role"], "assistant");
  if (wants_usage) {
    EXPECT_TRUE(chunks.back()["choices"].empty()) << chunks.back();
    check_usage(chunks.back()["usage"], "prompt_tokens", "completion_tokens");
    chunks.pop_back();
  }
  const std::set<std::string> reasons = {"stop", "length", "tool_calls"};
  for (const Json& chunk : chunks) {
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    const Json& reason = chunk["choices"][0]["finish_reason"];
    EXPECT_EQ(reason.is_null(), &chunk != &chunks.back()) << chunk;
    if (!reason.is_null()) {
      EXPECT_TRUE(reasons.contains(reason)) << reason;
    }
  }
}

void check_chat(const Json& json) {
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["choices"][0]["message"]["role"], "assistant");
  EXPECT_TRUE(json["choices"][0]["finish_reason"].is_string()) << json;
  check_usage(json["usage"], "prompt_tokens", "completion_tokens");
}

void check_ollama_stream(const std::string& body) {
  const std::vector<Json> parts = lines(body);
  ASSERT_FALSE(parts.empty());
  for (const Json& part : parts)
    EXPECT_EQ(part["done"], &part == &parts.back()) << part;
  EXPECT_GT(parts.back().value("eval_count", 0), 0);
}

TEST(ClientRequests, AreServed) {
  const ServerProcess server;
  const std::vector<fs::path> files = request_files();
  EXPECT_GE(files.size(), 19U);
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    const Json request = read_json(file);
    ASSERT_TRUE(request.is_object());
    const std::string path = request["path"];
    const Json& body = request["body"];
    const Reply reply = post(server, path, body, request["headers"].get<Headers>());
    ASSERT_EQ(reply.status, 200) << reply.body;
    if (path.starts_with("/v1/messages")) {
      check_messages_stream(reply.body);
    } else if (path == "/v1/responses") {
      check_responses_stream(reply.body);
    } else if (path == "/api/chat") {
      check_ollama_stream(reply.body);
    } else if (body.value("stream", false)) {
      check_chat_stream(reply.body, body.contains("stream_options"));
    } else {
      check_chat(reply.json());
    }
  }
}

}  // namespace
}  // namespace graft::tests
