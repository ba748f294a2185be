#include "graft/chat/chat_template.h"

#include <algorithm>
#include <utility>

#include "graft/base/error.h"
#include "graft/jinja/interpreter.h"
#include "graft/jinja/unicode.h"

namespace graft::chat {
namespace {

constexpr int kMaxJsonDepth = 190;  // below jinja's own limit on nested values

jinja::Value to_value(jinja::Heap& heap, const OrderedJson& json, int depth) {
  if (depth > kMaxJsonDepth) jinja::raise("JSON nested deeper than ", kMaxJsonDepth, " levels");
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return jinja::Value(json.get<bool>());
    case OrderedJson::value_t::number_integer:
      return jinja::Value(json.get<std::int64_t>());
    case OrderedJson::value_t::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(INT64_MAX))
        jinja::raise("the integer ", number, " does not fit into 64 bits");
      return jinja::Value(static_cast<std::int64_t>(number));
    }
    case OrderedJson::value_t::number_float:
      return jinja::Value(json.get<double>());
    case OrderedJson::value_t::string:
      return heap.text(json.get_ref<const std::string&>());
    case OrderedJson::value_t::array: {
      std::vector<jinja::Value> items;
      items.reserve(json.size());
      for (const OrderedJson& item : json)
        items.push_back(to_value(heap, item, depth + 1));
      return heap.list(std::move(items));
    }
    case OrderedJson::value_t::object: {
      auto dict = std::make_shared<jinja::Dict>();
      for (const auto& [key, item] : json.items())
        dict->set(heap, heap.text(key), to_value(heap, item, depth + 1));
      return heap.dict(std::move(dict));
    }
    default:
      return {};
  }
}

// Errors are single lines, whatever text the template passes to raise_exception.
std::string one_line(std::string_view text) {
  constexpr std::size_t kMaxCharacters = 1000;
  const std::size_t end = jinja::byte_offset(text, kMaxCharacters);
  std::string line(text.substr(0, end));
  std::ranges::replace(line, '\n', ' ');
  std::ranges::replace(line, '\r', ' ');
  return end < text.size() ? line + " …" : line;
}

std::string run_template(const jinja::Template& tree,
                         const RenderInput& input,
                         const RenderLimits& limits) {
  jinja::Heap heap({.max_steps = limits.max_steps, .max_bytes = limits.max_memory_bytes});
  const auto now = input.now.value_or(std::chrono::system_clock::now());
  jinja::Interpreter interpreter(tree, heap, limits.max_depth, limits.max_output_bytes, now);
  try {
    const auto define = [&](const std::string& name, const OrderedJson& json) {
      interpreter.define(name, to_value(heap, json, 0));
    };
    define("messages", input.messages);
    define("tools", input.tools);
    define("documents", input.documents);
    interpreter.define("add_generation_prompt", jinja::Value(input.add_generation_prompt));
    if (input.bos_token) interpreter.define("bos_token", heap.text(*input.bos_token));
    if (input.eos_token) interpreter.define("eos_token", heap.text(*input.eos_token));
    for (const auto& [name, json] : input.extra.items())
      define(name, json);
    return interpreter.run();
  } catch (const jinja::RenderError& error) {
    fail(tree.name, ":", interpreter.line, ": ", one_line(error.what()));
  }
}

// Renders a message with the given content; empty when the template fails.
std::string probe(const jinja::Template& tree, OrderedJson content) {
  RenderInput input;
  input.messages = OrderedJson::array({{{"role", "user"}, {"content", std::move(content)}}});
  input.bos_token = "";
  input.eos_token = "";
  try {
    return run_template(tree, input,
                        {.max_steps = 200'000, .max_output_bytes = std::size_t{1} << 20U});
  } catch (const Error&) {
    return {};
  }
}

OrderedJson text_part() {
  return {{"type", "text"}, {"text", "graft-probe"}};
}

// A template that expects text either fails or prints the list as Python or JSON does.
bool probe_content_parts(const jinja::Template& tree) {
  const std::string text = probe(tree, OrderedJson::array({text_part()}));
  return text.find("graft-probe") != std::string::npos &&
         text.find("type': '") == std::string::npos && text.find("type\": \"") == std::string::npos;
}

bool probe_images(const jinja::Template& tree) {
  const OrderedJson image = {{"type", "image"}};
  return probe(tree, OrderedJson::array({image, text_part()})).find("<image>") != std::string::npos;
}

bool probe_text(const jinja::Template& tree) {
  return probe(tree, "graft-probe").find("graft-probe") != std::string::npos;
}

}  // namespace

struct ChatTemplate::State {
  std::string source;
  std::unique_ptr<const jinja::Template> tree;
  bool reads_content_parts = false;
  bool writes_images = false;
  bool reads_text = true;
};

ChatTemplate::ChatTemplate(std::string_view source, const std::string& name) {
  auto state = std::make_unique<State>();
  state->source = source;
  try {
    state->tree = jinja::parse_template(source, name);
  } catch (const jinja::RenderError& error) {
    fail(name, ": ", error.what());  // a constant is too large
  }
  state->reads_content_parts = probe_content_parts(*state->tree);
  if (state->reads_content_parts) {
    state->writes_images = probe_images(*state->tree);
    state->reads_text = probe_text(*state->tree);
  }
  state_ = std::move(state);
}

ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

std::string ChatTemplate::render(const RenderInput& input, const RenderLimits& limits) const {
  return run_template(*state_->tree, input, limits);
}

bool ChatTemplate::reads_content_parts() const {
  return state_->reads_content_parts;
}

bool ChatTemplate::writes_images() const {
  return state_->writes_images;
}

bool ChatTemplate::reads_text() const {
  return state_->reads_text;
}

const std::string& ChatTemplate::source() const {
  return state_->source;
}

}  // namespace graft::chat
