// Images in the APIs of graft serve and in `graft run`, with a tiny LLaVA.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/base/text/base64.h"
#include "graft/base/text/json.h"
#include "graft/testing/checkpoints/llava_chat.h"
#include "graft/testing/hub/http_peer.h"
#include "graft/testing/shared_data.h"

#include "tests/program.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

namespace fs = std::filesystem;

fs::path picture(const std::string& name) {
  return test_data("fixtures/images") / name;
}

std::string base64_of(const std::string& name) {
  std::ifstream in(picture(name), std::ios::binary);
  return base64_encode(std::string{std::istreambuf_iterator<char>(in), {}});
}

Json openai(const Json& content) {
  return {{"messages", {{{"role", "user"}, {"content", content}}}},
          {"max_tokens", 6},
          {"temperature", 0},
          {"ignore_eos", true}};
}

Json image_part(const std::string& url) {
  return {{"type", "image_url"}, {"image_url", {{"url", url}}}};
}

Json question(const std::string& name, const std::string& text = "What is it?") {
  return Json::array(
      {image_part("data:image/png;base64," + base64_of(name)), {{"type", "text"}, {"text", text}}});
}

class Images : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempDir();
    fs::create_directory(*folder_ / "llava");
    write_model();
    server_ = new ServerProcess({"--model", (*folder_ / "llava"), "--max-model-len", "400"});
  }
  static void TearDownTestSuite() {
    delete server_;
    delete folder_;
  }
  static void write_model() { write_llava_chat("llava", *folder_ / "llava"); }

  static std::string text_of(const Reply& reply) {
    return reply.json()["choices"][0]["message"]["content"];
  }

  static TempDir* folder_;
  static ServerProcess* server_;
};

TempDir* Images::folder_ = nullptr;
ServerProcess* Images::server_ = nullptr;

TEST_F(Images, EveryApiReadsTheSameImage) {
  const Reply chat = post(*server_, kChat, openai(question("photo.webp")));
  ASSERT_EQ(chat.status, 200) << chat.body;
  const std::int64_t num_prompt = chat.json()["usage"]["prompt_tokens"];
  // "user:" + the image's 16 tokens + "\nWhat is it?"
  EXPECT_EQ(num_prompt, 5 + 16 + 12);
  const Reply counted = post(*server_, "/v1/chat/completions/input_tokens",
                             {{"messages", openai(question("photo.webp"))["messages"]}});
  EXPECT_EQ(counted.json()["input_tokens"], num_prompt) << counted.body;

  const std::string data = base64_of("photo.webp");
  const Json source = {{"type", "base64"}, {"media_type", "image/webp"}, {"data", data}};
  const Json blocks = Json::array(
      {{{"type", "image"}, {"source", source}}, {{"type", "text"}, {"text", "What is it?"}}});
  const Reply messages = post(*server_, "/v1/messages",
                              {{"model", "llava"},
                               {"max_tokens", 6},
                               {"temperature", 0},
                               {"messages", {{{"role", "user"}, {"content", blocks}}}}});
  ASSERT_EQ(messages.status, 200) << messages.body;
  EXPECT_EQ(messages.json()["usage"]["input_tokens"].get<std::int64_t>() +
                messages.json()["usage"].value("cache_read_input_tokens", 0),
            num_prompt);

  const Json parts =
      Json::array({{{"type", "input_image"}, {"image_url", "data:image/webp;base64," + data}},
                   {{"type", "input_text"}, {"text", "What is it?"}}});
  const Reply response = post(*server_, "/v1/responses",
                              {{"input", {{{"role", "user"}, {"content", parts}}}},
                               {"max_output_tokens", 6},
                               {"temperature", 0}});
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.json()["usage"]["input_tokens"], num_prompt);

  const Reply ollama =
      post(*server_, "/api/chat",
           {{"model", "llava"},
            {"stream", false},
            {"options", {{"temperature", 0}, {"num_predict", 6}}},
            {"messages", {{{"role", "user"}, {"content", "What is it?"}, {"images", {data}}}}}});
  ASSERT_EQ(ollama.status, 200) << ollama.body;
  EXPECT_EQ(ollama.json()["prompt_eval_count"], num_prompt);
  const Reply generated = post(*server_, "/api/generate",
                               {{"model", "llava"},
                                {"stream", false},
                                {"prompt", "What is it?"},
                                {"images", {data}},
                                {"options", {{"temperature", 0}, {"num_predict", 6}}}});
  ASSERT_EQ(generated.status, 200) << generated.body;
  EXPECT_EQ(generated.json()["prompt_eval_count"], num_prompt);
  EXPECT_EQ(generated.json()["response"], ollama.json()["message"]["content"]);
}

TEST_F(Images, PrefixCacheTellsImagesApart) {
  const auto cached = [](const Reply& reply) {
    return reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"].get<std::int64_t>();
  };
  const Reply first = post(*server_, kChat, openai(question("landscape.png", "Longer question?")));
  const Reply again = post(*server_, kChat, openai(question("landscape.png", "Longer question?")));
  const Reply other = post(*server_, kChat, openai(question("portrait.jpg", "Longer question?")));
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(cached(again), 32);
  EXPECT_EQ(text_of(again), text_of(first));
  EXPECT_EQ(cached(other), 0);
}

TEST_F(Images, TextThatSpellsAnImageStaysText) {
  const Reply text = post(*server_, kChat, openai("a <image> b"));
  ASSERT_EQ(text.status, 200) << text.body;
  EXPECT_EQ(text.json()["usage"]["prompt_tokens"], 5 + 11);
  const Reply both = post(*server_, kChat, openai(question("gray.png", "<image>")));
  ASSERT_EQ(both.status, 200) << both.body;
  EXPECT_EQ(both.json()["usage"]["prompt_tokens"], 5 + 16 + 1 + 7);
}

TEST_F(Images, SeveralImagesInSeveralMessages) {
  Json body = openai(question("gray.png", "One"));
  Json two = question("alpha.png", "Two");
  two.push_back(question("photo.webp")[0]);
  body["messages"].push_back({{"role", "assistant"}, {"content", "Yes"}});
  body["messages"].push_back({{"role", "user"}, {"content", two}});
  const Reply reply = post(*server_, kChat, body);
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.json()["usage"]["prompt_tokens"], (5 + 16 + 1 + 3) + 13 + (5 + 2 * 17 + 3));
}

TEST_F(Images, RefusesWhatIsNoImage) {
  const auto message = [](const std::string& url) {
    const Reply reply = post(*server_, kChat, openai(Json::array({image_part(url)})));
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.json()["error"]["message"].get<std::string>();
  };
  const std::string url = message("https://example.com/a.png");
  EXPECT_NE(url.find("'https' URLs are not fetched"), std::string::npos) << url;
  EXPECT_NE(url.find("--allow-image-urls HOST"), std::string::npos) << url;
  EXPECT_NE(message("data:image/png;base64,!!").find("not base64"), std::string::npos);
  EXPECT_NE(message("data:image/png,abc").find("expected data:image"), std::string::npos);
  EXPECT_NE(message("data:image/png;base64,aGVsbG8=").find("unknown format"), std::string::npos);
  EXPECT_NE(message("data:image/png;base64,iVBORw0KGgo=").find("PNG image: the file is truncated"),
            std::string::npos);
  Json many = Json::array();
  for (int i = 0; i < 30; ++i)
    many.push_back(question("gray.png")[0]);
  const Reply too_many = post(*server_, kChat, openai(many));
  EXPECT_EQ(too_many.status, 400);
  EXPECT_NE(too_many.body.find("content[24]: the images up to this one have 400 tokens"),
            std::string::npos)
      << too_many.body;
  Json logprobs = openai(question("gray.png"));
  logprobs["prompt_logprobs"] = 1;
  EXPECT_EQ(post(*server_, kChat, logprobs).status, 400);
}

// Every API, and a host that is not named.
TEST(ImageUrls, AreFetchedFromAllowedHosts) {
  const TempDir folder;
  fs::create_directory(folder / "llava");
  write_llava_chat("llava", folder / "llava");
  const hub::testing::HttpPeer peer([](const hub::testing::PeerRequest& request) {
    std::ifstream in(picture("photo.webp"), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    if (request.target == "/photo.webp") return hub::testing::PeerResponse{.body = bytes};
    if (request.target == "/text") return hub::testing::PeerResponse{.body = "hello"};
    return hub::testing::PeerResponse{.status = 404};
  });
  const hub::testing::HttpPeer other(
      [](const hub::testing::PeerRequest&) { return hub::testing::PeerResponse{.body = "x"}; });
  const std::string url = peer.url() + "/photo.webp";
  const ServerProcess server({"--model", folder / "llava", "--max-model-len", "400",
                              "--allow-image-urls", "images.example," + peer.url().substr(7)});
  const auto with_url = [](const std::string& image) {
    return openai(Json::array({image_part(image), {{"type", "text"}, {"text", "What is it?"}}}));
  };
  const Reply chat = post(server, kChat, with_url(url));
  ASSERT_EQ(chat.status, 200) << chat.body;
  EXPECT_EQ(chat.json()["usage"]["prompt_tokens"], 5 + 16 + 12);
  const Reply same = post(server, kChat, openai(question("photo.webp")));
  EXPECT_EQ(same.json()["choices"][0]["message"], chat.json()["choices"][0]["message"]);
  const Reply counted =
      post(server, "/v1/chat/completions/input_tokens", {{"messages", with_url(url)["messages"]}});
  EXPECT_EQ(counted.json()["input_tokens"], 5 + 16 + 12) << counted.body;

  const Json source = {{"type", "url"}, {"url", url}};
  const Json blocks = Json::array({{{"type", "image"}, {"source", source}}});
  const Reply messages = post(server, "/v1/messages",
                              {{"model", "llava"},
                               {"max_tokens", 6},
                               {"messages", {{{"role", "user"}, {"content", blocks}}}}});
  EXPECT_EQ(messages.status, 200) << messages.body;
  const Json parts = Json::array({{{"type", "input_image"}, {"image_url", url}}});
  const Reply response =
      post(server, "/v1/responses",
           {{"input", {{{"role", "user"}, {"content", parts}}}}, {"max_output_tokens", 6}});
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(peer.requests().size(), 4);

  const auto refused = [&](const std::string& image) {
    const Reply reply = post(server, kChat, with_url(image));
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.body;
  };
  EXPECT_NE(refused(other.url() + "/x").find("messages[0].content[0].image_url.url: the host"),
            std::string::npos);
  EXPECT_TRUE(other.requests().empty());
  EXPECT_NE(refused(peer.url() + "/missing").find("status 404"), std::string::npos);
  EXPECT_NE(refused(peer.url() + "/text").find("unknown format"), std::string::npos);
  EXPECT_NE(refused("ftp://images.example/x").find("'ftp' URLs are not fetched"),
            std::string::npos);
}

TEST(ImageUrls, RefusesMalformedHosts) {
  const Outcome outcome = run_program({"serve", "--allow-image-urls", "http://a.example"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("expected HOST or HOST:PORT"), std::string::npos) << outcome.err;
}

TEST_F(Images, RunTakesImageFiles) {
  const std::string model = *folder_ / "llava";
  const Outcome outcome = run_program({"run", "-m", model, "--device", "cpu", "--image",
                                       picture("portrait.jpg").string(), "--temperature", "0", "-n",
                                       "4", "--json", "Hi"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["prompt_tokens"], 5 + 16 + 1 + 2);
  const Outcome refused = run_program(
      {"run", "--device", "cpu", "--image", picture("portrait.jpg").string(), "-n", "4", "Hi"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("graft: --image: the model"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("reads no images"), std::string::npos) << refused.err;
  const std::string damaged = *folder_ / "damaged.png";
  std::ofstream(damaged) << "no picture";
  const Outcome unread = run_program({"run", "-m", model, "--image", damaged, "Hi"});
  EXPECT_EQ(unread.exit_code, 2);
  EXPECT_NE(unread.err.find(damaged + ": "), std::string::npos) << unread.err;
  const Outcome missing = run_program({"run", "-m", model, "--image", "/nowhere.png", "Hi"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.err.find("/nowhere.png: no such file or folder"), std::string::npos);
}

TEST_F(Images, PlanShowsTheTower) {
  const std::string model = *folder_ / "llava";
  const Outcome plan = run_program({"plan", model, "--gpus", "1", "--vram", "24G"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_NE(plan.out.find("vision_tower"), std::string::npos) << plan.out;
  EXPECT_NE(plan.out.find("multi_modal_projector"), std::string::npos) << plan.out;
}

// A template that takes text alone, and tiles.
TEST(ImagesOfLlavaNext, AreWrittenForTemplatesOfText) {
  const TempDir folder;
  fs::create_directory(folder / "next");
  write_llava_chat("llava-next", folder / "next", false);
  const ServerProcess server({"--model", folder / "next", "--max-model-len", "400"});
  const Reply reply =
      post(server, kChat, openai(question("portrait.jpg", "A <image> \xef\xb7\x91?")));
  ASSERT_EQ(reply.status, 200) << reply.body;
  // "user:" + 56 + "\nA <image> ?\n": the noncharacter is removed.
  EXPECT_EQ(reply.json()["usage"]["prompt_tokens"], 5 + 56 + 13);
}

}  // namespace
}  // namespace graft::tests
