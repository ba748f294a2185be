// The response of /v1/responses, as one JSON object or as server-sent events. Its output is a list
// of items (reasoning, message, function_call); a stream has one open item at a time.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graft/server/generation/generation.h"
#include "graft/server/generation/output_parser.h"
#include "graft/server/openai/responses/items.h"
#include "graft/server/openai/wire.h"

namespace graft::server::openai::responses {

struct ResponseOptions {
  OutputFormat format = {};
  OrderedJson echo = OrderedJson::object();              // fields of the request
  std::map<std::string, QualifiedName> namespaces = {};  // read_namespaces()
  bool is_stream = false;
  bool wants_logprobs = false;
  bool wants_summary = false;
  bool wants_encrypted = false;
  const tokenizer::Tokenizer* tokenizer = nullptr;  // for logprobs
  // Called with the finished response, on the thread of finish().
  std::function<void(const OrderedJson& response)> on_finish = {};
};

class ResponsesWriter final : public ResponseWriter {
 public:
  ResponsesWriter(Identity identity, ResponseOptions options);

  std::string begin() override;
  std::string append(std::size_t prompt, const api::Update& update) override;
  std::string finish(const Usage& usage) override;
  std::string error(const std::string& message) override;
  std::size_t num_bytes() const override { return num_bytes_; }

 private:
  enum class Kind : std::uint8_t { Reasoning, Message, Call };
  struct Item {
    Kind kind = Kind::Message;
    std::string id = {};
    std::string call_id = {};
    QualifiedName function = {};
    std::string text = {};  // of a call: its arguments
    OrderedJson logprobs = OrderedJson::array();
    const char* status = "in_progress";
  };

  // Events; empty for a response that is not streamed.
  std::string event(const char* type, const OrderedJson& fields);
  // An event of the last item: with item_id, output_index and the index of its only part.
  std::string item_event(const char* type, const OrderedJson& fields);
  std::string open(Kind kind, const ToolCall& call = {});
  std::string close(const char* status);
  std::string close_part();
  std::string add_text(Kind kind, const std::string& text);
  std::string add_call(const ToolCall& piece);
  std::string add(const OutputDelta& delta);
  std::string extend(const std::string& text, const OrderedJson& logprobs);

  void take_logprobs(const api::Update& update, bool was_thinking);
  OrderedJson part_json(const Item& item, bool is_empty) const;
  OrderedJson item_json(const Item& item) const;
  OrderedJson response(const char* status, bool has_output) const;
  bool is_summary(const Item& item) const;
  QualifiedName function_of(const ToolCall& call) const;

  Identity identity_;
  ResponseOptions options_;
  OutputParser parser_;
  std::vector<Item> items_;
  bool is_open_ = false;                         // the last item
  OrderedJson logprobs_ = OrderedJson::array();  // of text that is not written yet
  bool is_cut_ = false;                          // by max_output_tokens
  OrderedJson usage_ = nullptr;
  OrderedJson error_ = nullptr;
  std::int64_t num_reasoning_ = 0;  // tokens
  std::int64_t sequence_number_ = 0;
  std::size_t num_bytes_ = 0;
};

}  // namespace graft::server::openai::responses
