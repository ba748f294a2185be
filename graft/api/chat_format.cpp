#include "graft/api/chat_format.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/base/text/base64.h"
#include "graft/chat/harmony.h"
#include "graft/chat/messages.h"
#include "graft/chat/reasoning.h"
#include "graft/chat/tool_format.h"
#include "graft/formats/created_model.h"
#include "graft/models/families/family.h"

namespace graft::api {
namespace {

formats::ChatTraits traits_of(const LLM& llm) {
  const models::Family* family = llm.source().config().family;
  return family == nullptr ? formats::ChatTraits{} : family->chat;
}

chat::SelectedTemplate select(const LLM& llm, const std::string& override_template) {
  if (llm.tokenizer() == nullptr) fail("the model has no tokenizer: chat is not available");
  return chat::select_template(llm.source().tokenizer(), override_template, traits_of(llm));
}

// How templates write an image, and how it is written here for templates that do not: U+FDD1, a
// noncharacter.
constexpr std::string_view kImage = "<image>";
constexpr std::string_view kImageMark = "\xef\xb7\x91";

// Text that spells an image stays text.
std::vector<std::string> further_texts(const LLM& llm) {
  if (!llm.has_vision()) return {};
  return {std::string(kImage)};
}

bool mentions_tags(const std::string& source, const formats::ReasoningTags& tags) {
  return source.find(tags.open) != std::string::npos ||
         source.find(tags.close) != std::string::npos;
}

// The common tags when the template contains one of them, else those of the family.
formats::ReasoningTags reasoning_tags(const std::string& source,
                                      const formats::ReasoningTags& family) {
  constexpr formats::ReasoningTags kCommon;
  return mentions_tags(source, kCommon) ? kCommon : family;
}

bool mentions_thinking(const std::string& source) {
  // Qwen3 and GLM use enable_thinking, DeepSeek-V3.1 and Kimi use thinking.
  return source.find("enable_thinking") != std::string::npos ||
         source.find("if thinking") != std::string::npos ||
         source.find("thinking is defined") != std::string::npos;
}

// What the last message has so far.
struct Continued {
  std::string reasoning = {};
  std::string content = {};
};

Continued last_message(const OrderedJson& messages) {
  const auto where = str("messages[", messages.size() - 1, "]");
  const OrderedJson last =
      chat::flatten_content(OrderedJson::array({messages[messages.size() - 1]}))[0];
  if (last["role"] != "assistant") {
    fail(where, ": only a message of the assistant can be continued, not of ",
         last["role"].get<std::string>());
  }
  const auto calls = last.find("tool_calls");
  if (calls != last.end() && !calls->empty())
    fail(where, ": a message with tool calls cannot be continued");
  if (messages.size() == 1) fail(where, ": needs a message before it to be continued");
  const auto text = [&](const char* key) {
    const auto found = last.find(key);
    return found == last.end() || found->is_null() ? std::string() : found->get<std::string>();
  };
  return {.reasoning = text("reasoning_content"), .content = text("content")};
}

bool is_system(const OrderedJson& message) {
  return message.value("role", "") == "system";
}

// The messages of a created model come after the system prompt, which a request may replace.
OrderedJson with_created(const OrderedJson& messages, const formats::CreatedModel& created) {
  OrderedJson all = OrderedJson::array();
  auto next = messages.begin();
  const bool has_system = next != messages.end() && is_system(*next);
  if (has_system) {
    all.push_back(*next++);
  } else if (!created.system.empty()) {
    all.push_back({{"role", "system"}, {"content", created.system}});
  }
  all.insert(all.end(), created.messages.begin(), created.messages.end());
  all.insert(all.end(), next, messages.end());
  return all;
}

// All texts inside a value but roles and types, which are words.
void mark_texts(OrderedJson& value,
                const tokenizer::SpecialTexts& special,
                std::span<const std::string_view> allowed) {
  if (value.is_string()) value = special.marked(value.get_ref<const std::string&>(), allowed);
  if (!value.is_structured()) return;
  for (const auto& item : value.items()) {
    if (value.is_object() && (item.key() == "role" || item.key() == "type")) continue;
    mark_texts(item.value(), special, allowed);
  }
}

// From texts of the client, before marks are written into them.
void remove_image_marks(OrderedJson& value) {
  if (value.is_string()) {
    auto& text = value.get_ref<std::string&>();
    for (std::size_t at = text.find(kImageMark); at != std::string::npos;
         at = text.find(kImageMark))
      text.erase(at, kImageMark.size());
  }
  if (!value.is_structured()) return;
  for (OrderedJson& item : value)
    remove_image_marks(item);
}

// The bytes of a "data:" URL.
std::string data_of_url(const chat::ImagePart& image) {
  const std::string_view url = image.url;
  const std::string where = image.where + ".image_url.url";
  if (!url.starts_with("data:")) {
    const std::string_view scheme = url.substr(0, std::min(url.find(':'), std::size_t{16}));
    fail(where, ": '", scheme,
         "' URLs are not fetched, only 'data:' URLs are read; graft serve "
         "--allow-image-urls HOST fetches images from that host");
  }
  const std::size_t comma = url.find(',');
  if (comma == std::string_view::npos || !url.substr(0, comma).ends_with(";base64"))
    fail(where, ": expected data:image/TYPE;base64,…");
  std::optional<std::string> bytes = base64_decode(url.substr(comma + 1));
  if (!bytes) fail(where, ": the data is not base64");
  return *std::move(bytes);
}

}  // namespace

ChatFormat::ChatFormat(const LLM& llm, const std::string& override_template)
    : llm_(&llm),
      selected_(select(llm, override_template)),
      special_texts_(*llm.tokenizer(), further_texts(llm)),
      accepts_content_parts_(selected_.chat_template.reads_content_parts()),
      writes_images_(selected_.chat_template.writes_images()),
      reads_text_(selected_.chat_template.reads_text()),
      has_thinking_variable_(mentions_thinking(selected_.chat_template.source())),
      reasoning_(reasoning_tags(selected_.chat_template.source(), traits_of(llm).reasoning)),
      has_reasoning_tags_(mentions_tags(selected_.chat_template.source(), reasoning_)),
      tool_calls_(
          chat::tool_call_format(selected_.chat_template.source(), traits_of(llm).tool_calls)),
      call_form_(chat::call_template(tool_calls_, selected_.chat_template.source())) {}

// Decodes the images of the messages.
void ChatFormat::take_images(OrderedJson& messages, ChatPrompt& prompt) const {
  std::int64_t num_tokens = 0;
  for (const chat::ImagePart& image : chat::take_images(messages)) {
    if (!llm_->has_vision()) {
      fail(image.where,
           ".type: 'image_url' is not supported, only 'text': ", llm_->source().config().name,
           " reads no images");
    }
    const std::string bytes = data_of_url(image);
    try {
      prompt.images.push_back({.image = llm_->prepare_image(std::as_bytes(std::span(bytes)))});
    } catch (const Error& error) {
      fail(image.where, ".image_url: ", error.what());
    }
    // Many small files would take much memory as pixels.
    num_tokens += llm_->num_image_tokens(*prompt.images.back().image);
    if (num_tokens >= llm_->config().max_model_len) {
      fail(image.where, ": the images up to this one have ", num_tokens,
           " tokens, the max context length is ", llm_->config().max_model_len, " tokens");
    }
  }
}

// Content in the form that the template reads.
OrderedJson ChatFormat::adapt_content(OrderedJson messages) const {
  if (!writes_images_) {
    remove_image_marks(messages);
    const std::string line_end = accepts_content_parts_ ? "\n" : "";
    messages = chat::write_images(std::move(messages), std::string(kImageMark) + line_end);
  }
  if (!accepts_content_parts_) return chat::flatten_content(std::move(messages));
  return reads_text_ ? messages : chat::wrap_texts(std::move(messages));
}

// Finds the images in the rendered text, where no mark of special_texts_ cuts them.
void ChatFormat::find_marks(ChatPrompt& prompt) const {
  if (prompt.images.empty()) return;
  const std::string_view mark = writes_images_ ? kImage : kImageMark;
  const std::string before = std::move(prompt.text);
  prompt.text.clear();
  std::size_t begin = 0;
  auto cut = prompt.cuts.begin();
  const auto copy_to = [&](std::size_t end) {
    for (; cut != prompt.cuts.end() && *cut <= end; ++cut)
      *cut = *cut - begin + prompt.text.size();
    prompt.text += before.substr(begin, end - begin);
    begin = end;
  };
  for (std::size_t at = before.find(mark); at != std::string::npos; at = before.find(mark, at)) {
    const auto next = std::upper_bound(cut, prompt.cuts.end(), at);
    const bool is_cut = next != prompt.cuts.end() && *next < at + mark.size();
    if (is_cut) {
      at += mark.size();
      continue;
    }
    copy_to(at);
    prompt.marks.push_back(prompt.text.size());
    prompt.text += kImage;
    begin = at += mark.size();
  }
  copy_to(before.size());
  if (prompt.marks.size() != prompt.images.size()) {
    fail("the chat template writes ", prompt.marks.size(), " images for ", prompt.images.size(),
         prompt.marks.size() > prompt.images.size() ? ": a text spells <image>" : "");
  }
}

std::string ChatFormat::render(const Conversation& conversation, ChatPrompt& prompt) const {
  chat::check_messages(conversation.messages);
  chat::check_tools(conversation.tools);
  chat::RenderInput input;
  const formats::CreatedModel* created = llm_->source().created();
  input.messages = chat::parse_tool_arguments(
      created == nullptr ? conversation.messages : with_created(conversation.messages, *created));
  take_images(input.messages, prompt);
  input.messages = adapt_content(std::move(input.messages));
  if (reasoning_.is_harmony) input.messages = chat::harmony_messages(std::move(input.messages));
  input.tools = conversation.tools;
  if (!conversation.parse_special) mark_special_texts(input.messages, input.tools);
  input.add_generation_prompt = conversation.add_generation_prompt;
  input.extra = conversation.extra;
  if (conversation.thinking != Thinking::ModelDecides) {
    const bool on = conversation.thinking == Thinking::On;
    input.extra["enable_thinking"] = on;
    input.extra["thinking"] = on;
  }
  chat::set_special_tokens(input, llm_->source().tokenizer());
  return selected_.chat_template.render(input);
}

// Templates look for the tags of the reasoning in earlier responses.
void ChatFormat::mark_special_texts(OrderedJson& messages, OrderedJson& tools) const {
  const std::array tags = {reasoning_.open, reasoning_.close};
  for (OrderedJson& message : messages) {
    const bool is_response = message.value("role", "") == "assistant";
    mark_texts(message, special_texts_,
               is_response ? std::span<const std::string_view>(tags)
                           : std::span<const std::string_view>());
  }
  mark_texts(tools, special_texts_, {});
}

ChatPrompt ChatFormat::prompt(const Conversation& conversation) const {
  ChatPrompt prompt = render_prompt(conversation);
  encode(prompt);
  return prompt;
}

// The template already wrote all special tokens.
void ChatFormat::encode(ChatPrompt& prompt) const {
  constexpr TokenId kPlaceholder = 0;
  prompt.tokens.clear();
  prompt.num_image_tokens = 0;
  const std::string_view text = prompt.text;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= prompt.marks.size(); ++i) {
    const std::size_t end = i < prompt.marks.size() ? prompt.marks[i] : text.size();
    std::vector<std::size_t> cuts;
    for (const std::size_t cut : prompt.cuts) {
      if (cut > begin && cut < end) cuts.push_back(cut - begin);
    }
    const std::vector<TokenId> part =
        special_texts_.encode(text.substr(begin, end - begin), cuts, begin == 0);
    prompt.tokens.insert(prompt.tokens.end(), part.begin(), part.end());
    if (i == prompt.marks.size()) break;
    prompt.images[i].position = static_cast<std::int64_t>(prompt.tokens.size());
    prompt.tokens.push_back(kPlaceholder);
    prompt.num_image_tokens += llm_->num_image_tokens(*prompt.images[i].image) - 1;
    begin = end + kImage.size();
  }
}

ChatPrompt ChatFormat::render_prompt(const Conversation& conversation) const {
  return conversation.continue_final_message ? render_continued(conversation)
                                             : render_turn(conversation);
}

// The prompt of the messages before the last one, then the text of the last one: templates end a
// message with markers that the output must come before.
ChatPrompt ChatFormat::render_continued(const Conversation& conversation) const {
  chat::check_messages(conversation.messages);
  Continued last = last_message(conversation.messages);
  // Harmony keeps no reasoning before an answer.
  if (reasoning_.is_harmony && !last.content.empty()) last.reasoning.clear();
  Conversation before = conversation;
  before.messages.erase(before.messages.size() - 1);
  before.add_generation_prompt = true;
  if (!last.reasoning.empty()) {
    before.thinking = Thinking::On;
  } else if (!last.content.empty()) {
    before.thinking = Thinking::Off;
  }
  ChatPrompt prompt = render_turn(before);
  if (!last.reasoning.empty()) {
    if (!prompt.in_thinking) prompt.text += str(reasoning_.open, "\n");
    append(last.reasoning, conversation.parse_special, prompt);
    prompt.in_thinking = true;
  }
  if (prompt.in_thinking && !last.content.empty()) {
    prompt.text += str("\n", reasoning_.close, "\n\n");
    prompt.in_thinking = false;
  }
  append(last.content, conversation.parse_special, prompt);
  if (!last.content.empty()) prompt.may_think = false;
  return prompt;
}

// Adds text of the assistant to the end of the prompt.
void ChatFormat::append(const std::string& text, bool parse_special, ChatPrompt& prompt) const {
  const std::array tags = {reasoning_.open, reasoning_.close};
  const tokenizer::UnmarkedText added = parse_special
                                            ? tokenizer::UnmarkedText{.text = text, .cuts = {}}
                                            : tokenizer::unmark(special_texts_.marked(text, tags));
  for (const std::size_t cut : added.cuts)
    prompt.cuts.push_back(prompt.text.size() + cut);
  prompt.text += added.text;
}

ChatPrompt ChatFormat::render_turn(const Conversation& conversation) const {
  ChatPrompt prompt;
  tokenizer::UnmarkedText rendered = tokenizer::unmark(render(conversation, prompt));
  prompt.text = std::move(rendered.text);
  prompt.cuts = std::move(rendered.cuts);
  find_marks(prompt);
  prompt.reasoning = reasoning_;
  prompt.tool_calls = tool_calls_;
  prompt.call_form = call_form_;
  prompt.in_thinking = chat::ends_in_thinking(prompt.text, reasoning_);
  // For a template without such a variable, the reasoning is opened or closed here.
  if (conversation.add_generation_prompt && !has_thinking_variable_) {
    if (conversation.thinking == Thinking::On && !prompt.in_thinking) {
      prompt.text += str(reasoning_.open, reasoning_.is_harmony ? "" : "\n");
      prompt.in_thinking = true;
    } else if (conversation.thinking == Thinking::Off && reasoning_.is_harmony) {
      if (!conversation.forces_call) prompt.text += chat::kHarmonyFinal;
      prompt.in_thinking = false;
    } else if (conversation.thinking == Thinking::Off && prompt.in_thinking) {
      prompt.text += str("\n", reasoning_.close, "\n\n");
      prompt.in_thinking = false;
    }
  }
  const bool has_ended = trimmed(prompt.text, " \t\r\n").ends_with(reasoning_.close);
  prompt.may_think = !prompt.in_thinking && conversation.thinking != Thinking::Off &&
                     (reasoning_.is_harmony || (has_reasoning_tags_ && !has_ended));
  return prompt;
}

void constrain_after_reasoning(const ChatPrompt& prompt, SamplingParams& params) {
  if (!params.structured_output) return;
  if (prompt.reasoning.is_harmony) {
    params.structured_output->triggers = {std::string(chat::kHarmonyFinal)};
  } else if (prompt.in_thinking) {
    params.structured_output->triggers = {std::string(prompt.reasoning.close)};
  }
}

}  // namespace graft::api
