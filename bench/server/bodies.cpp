#include "bench/server/bodies.h"

#include "graft/base/text/str.h"

namespace graft::bench {

Json texts(std::size_t count) {
  Json list = Json::array();
  for (std::size_t i = 0; i < count; ++i)
    list.push_back(str("Once upon a time number ", i));
  return list;
}

Json memory_bomb() {
  Json body = many_answers(128, 128, 4000);
  body["temperature"] = 0;
  body["logprobs"] = 20;
  return body;
}

Json many_answers(std::size_t num_prompts, int n, int max_tokens) {
  return {
      {"prompt", texts(num_prompts)}, {"n", n}, {"max_tokens", max_tokens}, {"ignore_eos", true}};
}

Json large_stream(int n, int max_tokens) {
  return {{"messages", {{{"role", "user"}, {"content", "Tell me a story."}}}},
          {"n", n},
          {"max_tokens", max_tokens},
          {"ignore_eos", true},
          {"stream", true},
          {"logprobs", true},
          {"top_logprobs", 20}};
}

std::string long_text(std::size_t bytes) {
  return Json{{"messages", {{{"role", "user"}, {"content", std::string(bytes, 'a')}}}}}.dump();
}

std::string long_token_list(std::size_t bytes) {
  std::string body = R"({"prompt":[1)";
  while (body.size() < bytes)
    body += ",1,1,1,1,1,1,1,1";
  return body + "]}";
}

}  // namespace graft::bench
