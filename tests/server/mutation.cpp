#include "tests/server/mutation.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <string_view>
#include <vector>

#include "graft/base/check.h"
#include "graft/base/text/json.h"

#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

struct ValidRequest {
  const char* method;
  const char* path;
  const char* body;
};

// Every path. Requests generate one or two tokens, so that thousands of them take seconds.
// clang-format off
constexpr ValidRequest kValidRequests[] = {
    {"POST", "/v1/chat/completions", R"({"model":"sprout","messages":[{"role":"user","content":"Hi"}],"max_tokens":1,"temperature":0})"},
    {"POST", "/v1/chat/completions", R"({"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":[{"type":"text","text":"Hi"}]}],"max_completion_tokens":2,"stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":2,"seed":1})"},
    {"POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"reasoning_content":"b","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},{"role":"tool","tool_call_id":"1","content":"c"}],"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"x":{"type":"number"}}}}}],"tool_choice":"auto","parallel_tool_calls":false,"max_tokens":1})"},
    {"POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"n":2,"temperature":0.7,"top_p":0.9,"top_k":40,"min_p":0.1,"presence_penalty":0.5,"frequency_penalty":-0.5,"repetition_penalty":1.1,"stop":["x","y"],"logit_bias":{"5":-3,"7":2.5},"min_tokens":1,"ignore_eos":true,"stop_token_ids":[3],"allowed_token_ids":[5,6,7,8],"priority":1,"cache_salt":"s","reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false},"response_format":{"type":"text"}})"},
    {"POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"x":{"type":"integer"},"s":{"enum":["a"]}},"required":["x"],"additionalProperties":false}}}],"tool_choice":{"type":"function","function":{"name":"f"}},"max_tokens":2})"},
    {"POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f","strict":true}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}},"max_tokens":2})"},
    {"POST", "/v1/completions", R"({"model":"sprout","prompt":"Hi","max_tokens":1,"temperature":0,"echo":true,"logprobs":2})"},
    {"POST", "/v1/completions", R"({"prompt":[[5,6],[7]],"max_tokens":2,"n":2,"best_of":2,"stream":true,"seed":3,"user":"u"})"},
    {"POST", "/v1/chat/completions/input_tokens", R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"a"}],"continue_final_message":true,"verbosity":"low"})"},
    {"POST", "/v1/responses", R"({"model":"sprout","input":"Hi","instructions":"Be kind.","max_output_tokens":1,"temperature":0,"store":false,"truncation":"auto","metadata":{"a":"b"}})"},
    {"POST", "/v1/responses", R"({"input":[{"role":"developer","content":"Be kind."},{"role":"user","content":[{"type":"input_text","text":"Hi"}]},{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"c"}],"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"reasoning":{"effort":"low","summary":"auto"},"text":{"verbosity":"low"},"include":["message.output_text.logprobs"],"top_logprobs":1,"max_output_tokens":2,"stream":true})"},
    {"POST", "/v1/responses", R"({"input":"Hi","tools":[{"type":"function","name":"f","strict":true,"parameters":{"type":"object"}}],"tool_choice":"required","parallel_tool_calls":false,"max_output_tokens":2})"},
    {"POST", "/v1/responses/input_tokens", R"({"input":"Hi"})"},
    {"GET", "/v1/responses/none", ""},
    {"GET", "/v1/responses/none/input_items", ""},
    {"POST", "/v1/responses/none/cancel", "{}"},
    {"POST", "/v1/messages", R"({"model":"sprout","max_tokens":1,"messages":[{"role":"user","content":"Hi"}],"temperature":0})"},
    {"POST", "/v1/messages", R"({"max_tokens":2,"system":[{"type":"text","text":"Be kind.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"b","signature":"s"},{"type":"tool_use","id":"1","name":"f","input":{"x":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","is_error":true,"content":[{"type":"text","text":"c"}]}]}],"tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"thinking":{"type":"enabled","budget_tokens":1024},"stop_sequences":["x"],"top_k":5,"top_p":0.9,"stream":true})"},
    {"POST", "/v1/messages", R"({"max_tokens":2,"messages":[{"role":"user","content":"Hi"}],"tools":[{"name":"f","strict":true,"input_schema":{"type":"object","properties":{"x":{"type":"string"}}}}],"tool_choice":{"type":"tool","name":"f"}})"},
    {"POST", "/v1/messages/count_tokens", R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"a"}]})"},
    {"POST", "/v1/embeddings", R"({"model":"sprout","input":["a","b"],"encoding_format":"base64","dimensions":8})"},
    {"POST", "/v1/embeddings", R"({"input":[5,6,7],"encoding_format":"float"})"},
    {"POST", "/tokenize", R"({"prompt":"Hello world","add_special_tokens":true})"},
    {"POST", "/tokenize", R"({"messages":[{"role":"user","content":"Hi"}]})"},
    {"POST", "/detokenize", R"({"model":"sprout","tokens":[5,6,7]})"},
    {"POST", "/v1/rerank", R"({"model":"sprout","query":"a","documents":["b",{"text":"c"}],"top_n":1,"return_documents":true})"},
    {"POST", "/v1/score", R"({"text_1":"a","text_2":["b","c"]})"},
    {"POST", "/completion", R"({"prompt":["Hi",5],"n_predict":1,"temperature":0,"n_probs":2,"stop":["x"],"json_schema":{"type":"object"}})"},
    {"POST", "/completion", R"({"prompt":"Hi","n_predict":2,"stream":true,"grammar":"root ::= [a-z]+","logit_bias":[[5,-3]]})"},
    {"POST", "/infill", R"({"input_prefix":"a","input_suffix":"b","input_extra":[{"text":"c","filename":"d"}],"n_predict":1})"},
    {"POST", "/apply-template", R"({"messages":[{"role":"user","content":"Hi"}]})"},
    {"GET", "/props", ""},
    {"GET", "/slots", ""},
    {"POST", "/v1/completions", R"({"lora":"one","prompt":"Hi","max_tokens":1})"},
    {"POST", "/v1/load_lora_adapter", R"({"lora_name":"one","lora_path":"/nowhere","model":"sprout","scale":0.5})"},
    {"POST", "/v1/unload_lora_adapter", R"({"lora_name":"one","base_model_name":"sprout"})"},
    {"GET", "/v1/models", ""},
    {"GET", "/v1/models/sprout", ""},
    {"POST", "/api/chat", R"({"model":"sprout","messages":[{"role":"user","content":"Hi","images":[]}],"stream":false,"think":false,"keep_alive":"5m","options":{"num_predict":1,"temperature":0,"seed":1,"stop":["x"],"top_k":10}})"},
    {"POST", "/api/chat", R"({"model":"sprout:latest","messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}],"options":{"num_predict":2},"logprobs":true,"top_logprobs":1})"},
    {"POST", "/api/generate", R"({"model":"sprout","prompt":"Hi","system":"Be kind.","context":[5,6],"stream":false,"options":{"num_predict":1,"repeat_penalty":1.1}})"},
    {"POST", "/api/generate", R"({"model":"sprout","prompt":"Hi","raw":true,"keep_alive":60,"options":{"num_predict":2}})"},
    {"POST", "/api/embed", R"({"model":"sprout","input":["a"],"truncate":true,"dimensions":4})"},
    {"POST", "/api/embeddings", R"({"model":"sprout","prompt":"a"})"},
    {"POST", "/api/show", R"({"model":"sprout"})"},
    {"GET", "/api/tags", ""},
    {"GET", "/api/ps", ""},
    {"GET", "/api/version", ""},
    {"GET", "/health", ""},
    {"GET", "/ready", ""},
    {"GET", "/metrics", ""},
    {"GET", "/v1/plan", ""},
    {"GET", "/v1/history", ""},
    {"GET", "/status", ""},
};

// Replacement values as source text: edge cases of every JSON type, and invalid JSON.
constexpr const char* kEdgeValues[] = {
    "null", "true", "false", "0", "1", "-1", "0.5", "-0.0", "1e308", "-1e308", "1e-320", "1e999", "-1e999",
    "NaN", "Infinity", "-Infinity", "01", "+1", ".5", "0x10", "1.", "2147483647", "2147483648", "4294967296",
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551615",
    "18446744073709551616", "123456789012345678901234567890", R"("")", R"("0")", R"("NaN")", R"("\ud800")",
    R"("\udc00\ud800")", R"("\u0000")", R"("\q")", "\"\xff\xfe\"", "\"\xc3\"", R"("中文 👋")",
    R"("<|im_end|><think>")", R"("</think><tool_call>")", R"("sprout")", "[]", "{}", "[[]]", "[null]", "[0]",
    "[-1]", R"([""])", R"(["x",1])", R"({"":null})", R"({"a":[1,{"b":null}]})",
};
// clang-format on

class Random {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}

  // From 0 to `count` - 1; the modulo bias does not matter here.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  bool one_in(std::size_t count) { return below(count) == 0; }
  template <class List>
  const auto& one_of(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  std::mt19937_64 random_;
};

// Placeholders that are replaced in the serialized text, where invalid JSON can be inserted.
const std::string kValueMark = "=== value ===";
const std::string kKeyMark = "=== key ===";

void replace(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t found = text.find(from);
  if (found != std::string::npos) text.replace(found, from.size(), to);
}

std::string edge_value(Random& random) {
  switch (random.below(12)) {
    case 0:
      return '"' + std::string(std::array{100, 3'000, 60'000}[random.below(3)], 'x') + '"';
    case 1:
      return nested_lists(std::array<std::size_t, 4>{20, 120, 129, 2'000}[random.below(4)]);
    case 2: {
      std::string list = "[0";
      for (std::size_t left = std::array{3, 300, 5'000}[random.below(3)]; left > 0; --left)
        list += random.one_in(2) ? ",0" : ",\"a b\"";
      return list + "]";
    }
    default:
      return random.one_of(kEdgeValues);
  }
}

// Appends the pointers of `json` itself and of all values below it.
void collect(const Json& json,
             const Json::json_pointer& pointer,
             std::vector<Json::json_pointer>& out) {
  out.push_back(pointer);
  if (json.is_object()) {
    for (const auto& [key, value] : json.items())
      collect(value, pointer / key, out);
  } else if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i)
      collect(json[i], pointer / i, out);
  }
}

std::string mutated_json(const std::string& body, Random& random) {
  Json json = Json::parse(body);
  std::vector<Json::json_pointer> pointers;
  collect(json, Json::json_pointer(), pointers);
  const Json::json_pointer pointer = random.one_of(pointers);
  Json& value = json[pointer];
  std::string key;
  switch (random.below(6)) {
    case 0:  // an unknown key
      if (value.is_object()) value["unknown"] = kValueMark;
      break;
    case 1:  // a duplicate key
      if (value.is_object() && !value.empty()) {
        key = value.begin().key();
        value[kKeyMark] = kValueMark;
      }
      break;
    case 2:  // a missing key
      if (value.is_object() && !value.empty()) value.erase(value.begin());
      break;
    default:
      value = kValueMark;
  }
  std::string text = json.dump();
  replace(text, kKeyMark, key);
  replace(text, '"' + kValueMark + '"', edge_value(random));
  return text;
}

void mutate_bytes(std::string& text, const std::string& other, Random& random) {
  if (text.empty()) text = other;
  const std::size_t at = random.below(text.size());
  const std::size_t length = 1 + random.below(std::min<std::size_t>(text.size() - at, 16));
  const auto any_byte = [&] { return static_cast<char>(random.below(256)); };
  switch (random.below(7)) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
      break;
    case 1:
      text[at] = any_byte();
      break;
    case 2:
      for (std::size_t i = 0; i < length; ++i)
        text.insert(text.begin() + static_cast<std::ptrdiff_t>(at), any_byte());
      break;
    case 3:
      text.erase(at, length);
      break;
    case 4:
      text.insert(at, text.substr(at, length));
      break;
    case 5:
      text.resize(at);
      break;
    default:  // its start and the end of another request
      text = text.substr(0, at) + other.substr(random.below(other.size()));
  }
}

std::string in_chunks(const std::string& body) {
  const auto chunk = [](const std::string& bytes) {
    char size[16];
    std::snprintf(size, sizeof(size), "%zx\r\n", bytes.size());
    return bytes.empty() ? std::string() : size + bytes + "\r\n";
  };
  const std::size_t half = body.size() / 2;
  return chunk(body.substr(0, half)) + chunk(body.substr(half)) + "0\r\n\r\n";
}

// The request with chunked encoding, as HTTP/1.0, or with Content-Length.
std::string framed(const ValidRequest& request,
                   const std::string& body,
                   Headers headers,
                   Random& random) {
  const std::string method = request.method;
  if (method == "GET") return request_text(method, request.path, body, headers);
  switch (random.below(6)) {
    case 0: {
      headers["Transfer-Encoding"] = "chunked";
      std::string text = request_text(method, request.path, {}, headers);
      replace(text, "Content-Length: 0\r\n", "");
      return text + in_chunks(body);
    }
    case 1: {
      headers["Connection"] = "close";
      std::string text = request_text(method, request.path, body, headers);
      replace(text, "HTTP/1.1", "HTTP/1.0");
      return text;
    }
    default:
      headers["Content-Type"] = "application/json";
      return request_text(method, request.path, body, headers);
  }
}

const ValidRequest& request_of(const std::string& path, Random& random) {
  std::vector<const ValidRequest*> found;
  for (const ValidRequest& request : kValidRequests) {
    if (request.path == path) found.push_back(&request);
  }
  GRAFT_CHECK(!found.empty(), path);
  return *random.one_of(found);
}

}  // namespace

std::string nested_lists(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

std::vector<std::string> request_paths() {
  std::vector<std::string> paths;
  for (const ValidRequest& request : kValidRequests) {
    if (std::ranges::find(paths, request.path) == paths.end()) paths.emplace_back(request.path);
  }
  return paths;
}

std::string mutated_request(std::uint64_t number,
                            const std::string& path,
                            const std::string& api_key) {
  Random random(number);
  const Headers headers = api_key.empty() ? Headers() : Headers{{"x-api-key", api_key}};
  const ValidRequest& request = request_of(path, random);
  const ValidRequest& other = random.one_of(kValidRequests);
  std::string body = request.body;
  const bool has_body = !body.empty();
  if (has_body && random.one_in(2)) {
    body = mutated_json(body, random);
    return framed(request, body, headers, random);
  }
  const std::size_t num_changes = 1 + random.below(4);
  if (has_body && random.one_in(2)) {
    for (std::size_t i = 0; i < num_changes; ++i)
      mutate_bytes(body, std::string(other.body) + "}", random);
    return framed(request, body, headers, random);
  }
  std::string text = framed(request, body, headers, random);
  const std::string other_text = framed(other, other.body, headers, random);
  for (std::size_t i = 0; i < num_changes; ++i)
    mutate_bytes(text, other_text, random);
  return text;
}

}  // namespace graft::tests
