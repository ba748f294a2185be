#include "graft/chat/builtin_templates.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/system/mapped_file.h"
#include "graft/base/text/json.h"

namespace graft::chat {
namespace {

constexpr std::size_t kMaxTemplateBytes = std::size_t{4} << 20U;

// Common head of the templates: refuses tools and defines text(), the content of a message or "".
#define GRAFT_TEMPLATE_HEAD                                                              \
  "{%- if tools %}{{ raise_exception('built-in chat templates do not support tools') }}" \
  "{%- endif %}{%- macro text(message) %}{{ message.content or '' }}{% endmacro %}"

// For formats without a system role: they put the system prompt before the first user message.
#define GRAFT_TEMPLATE_TURNS                                                         \
  "{%- set system = text(messages[0]) if messages and messages[0].role == 'system' " \
  "else '' %}{%- set turns = messages[1:] if system else messages %}"

// clang-format off
constexpr std::array kTemplates = {
    BuiltinTemplate{"chatml", GRAFT_TEMPLATE_HEAD R"(
{%- for message in messages %}
    {{- '<|im_start|>' ~ message.role ~ '\n' ~ text(message) ~ '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %})"},

    // ChatML. Drops the reasoning of past turns; an empty <think> block disables reasoning.
    BuiltinTemplate{"qwen3", GRAFT_TEMPLATE_HEAD R"(
{%- for message in messages %}
    {%- set content = text(message) %}
    {%- if message.role == 'assistant' %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '<|im_start|>' ~ message.role ~ '\n' ~ content ~ '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and not enable_thinking %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %})"},

    BuiltinTemplate{"llama2", GRAFT_TEMPLATE_HEAD GRAFT_TEMPLATE_TURNS R"(
{%- for message in turns %}
    {%- if message.role == 'assistant' %}
        {{- ' ' ~ text(message)|trim ~ ' ' ~ eos_token }}
    {%- else %}
        {%- set content = text(message) %}
        {%- if loop.first and system %}
            {%- set content = '<<SYS>>\n' ~ system|trim ~ '\n<</SYS>>\n\n' ~ content %}
        {%- endif %}
        {{- bos_token ~ '[INST] ' ~ content|trim ~ ' [/INST]' }}
    {%- endif %}
{%- endfor %})"},

    BuiltinTemplate{"llama3", GRAFT_TEMPLATE_HEAD R"(
{{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' ~ message.role ~ '<|end_header_id|>\n\n' }}
    {{- text(message)|trim ~ '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %})"},

    BuiltinTemplate{"mistral", GRAFT_TEMPLATE_HEAD GRAFT_TEMPLATE_TURNS R"(
{{- bos_token }}
{%- for message in turns %}
    {%- if message.role == 'assistant' %}
        {{- ' ' ~ text(message)|trim ~ eos_token }}
    {%- else %}
        {%- set content = system ~ '\n\n' ~ text(message) if loop.first else text(message) %}
        {{- '[INST] ' ~ content|trim ~ ' [/INST]' }}
    {%- endif %}
{%- endfor %})"},

    BuiltinTemplate{"gemma", GRAFT_TEMPLATE_HEAD GRAFT_TEMPLATE_TURNS R"(
{{- bos_token }}
{%- for message in turns %}
    {%- set content = system ~ '\n\n' ~ text(message) if loop.first else text(message) %}
    {{- '<start_of_turn>' ~ ('model' if message.role == 'assistant' else message.role) ~ '\n' }}
    {{- content|trim ~ '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<start_of_turn>model\n' }}
{%- endif %})"},

    BuiltinTemplate{"phi3", GRAFT_TEMPLATE_HEAD R"(
{%- for message in messages %}
    {{- '<|' ~ message.role ~ '|>\n' ~ text(message)|trim ~ '<|end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\n' }}
{%- endif %})"},

    // Phi-4. Phi-4-mini has the format of phi3 without line breaks and its own template.
    BuiltinTemplate{"phi4", GRAFT_TEMPLATE_HEAD R"(
{%- for message in messages %}
    {{- '<|im_start|>' ~ message.role ~ '<|im_sep|>' ~ text(message) ~ '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant<|im_sep|>' }}
{%- endif %})"},

    BuiltinTemplate{"kimi-k2", GRAFT_TEMPLATE_HEAD R"(
{%- if not messages or messages[0].role != 'system' %}
    {{- '<|im_system|>system<|im_middle|>You are Kimi, an AI assistant created by Moonshot AI.' }}
    {{- '<|im_end|>' }}
{%- endif %}
{%- for message in messages %}
    {%- set kind = message.role if message.role in ('user', 'assistant') else 'system' %}
    {%- set content = text(message) %}
    {%- if kind == 'assistant' %}
        {%- set content = content.split('</think>')[-1] %}
    {%- endif %}
    {{- '<|im_' ~ kind ~ '|>' ~ (message.name or message.role) ~ '<|im_middle|>' ~ content }}
    {{- '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_assistant|>assistant<|im_middle|>' }}
{%- endif %})"},

    BuiltinTemplate{"zephyr", GRAFT_TEMPLATE_HEAD R"(
{%- for message in messages %}
    {{- '<|' ~ message.role ~ '|>\n' ~ text(message)|trim ~ eos_token ~ '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\n' }}
{%- endif %})"},

    // Every answer begins with reasoning.
    BuiltinTemplate{"minimax-m2", GRAFT_TEMPLATE_HEAD GRAFT_TEMPLATE_TURNS R"(
{{- ']~!b[]~b]system\n' ~ (system or 'You are a helpful assistant.') ~ '[e~[\n' }}
{%- for message in turns %}
    {%- set content = text(message) %}
    {%- if message.role == 'assistant' %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- ']~b]' ~ ('ai' if message.role == 'assistant' else message.role) ~ '\n' ~ content }}
    {{- '[e~[\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- ']~b]ai\n<think>\n' }}
{%- endif %})"},

    BuiltinTemplate{"deepseek-v3", GRAFT_TEMPLATE_HEAD R"(
{{- bos_token }}
{%- for message in messages if message.role == 'system' %}
    {{- text(message) }}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<｜Assistant｜>' ~ text(message).split('</think>')[-1] ~ eos_token }}
    {%- elif message.role != 'system' %}
        {{- '<｜User｜>' ~ text(message) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<｜Assistant｜>' }}
{%- endif %})"},

    // The prompt ends in the tag that begins the reasoning or, without it, ends it.
    BuiltinTemplate{"deepseek-v3.2", GRAFT_TEMPLATE_HEAD R"(
{{- bos_token }}
{%- for message in messages if message.role == 'system' %}
    {{- text(message) }}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<｜Assistant｜></think>' ~ text(message).split('</think>')[-1] ~ eos_token }}
    {%- elif message.role != 'system' %}
        {{- '<｜User｜>' ~ text(message) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<｜Assistant｜>' ~ ('<think>' if enable_thinking is defined and enable_thinking else '</think>') }}
{%- endif %})"},

    // GLM-4.5 and GLM-5: reasoning unless it is disabled.
    BuiltinTemplate{"glm", GRAFT_TEMPLATE_HEAD R"(
{{- '[gMASK]<sop>' }}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|assistant|>\n<think></think>\n' ~ text(message).split('</think>')[-1]|trim }}
    {%- else %}
        {{- '<|' ~ message.role ~ '|>\n' ~ text(message) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>' ~ ('\n<think></think>' if enable_thinking is defined and not enable_thinking else '') }}
{%- endif %})"},

    BuiltinTemplate{"llama4", GRAFT_TEMPLATE_HEAD R"(
{{- bos_token }}
{%- for message in messages %}
    {{- '<|header_start|>' ~ message.role ~ '<|header_end|>\n\n' ~ text(message)|trim ~ '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|header_start|>assistant<|header_end|>\n\n' }}
{%- endif %})"},

    // GPT-OSS: the system prompt is the developer's message.
    BuiltinTemplate{"harmony", GRAFT_TEMPLATE_HEAD GRAFT_TEMPLATE_TURNS R"(
{{- '<|start|>system<|message|>Reasoning: ' ~ (reasoning_effort or 'medium') }}
{{- '\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message.' }}
{{- '<|end|>' }}
{%- if system %}
    {{- '<|start|>developer<|message|># Instructions\n\n' ~ system ~ '<|end|>' }}
{%- endif %}
{%- for message in turns %}
    {%- if message.role == 'assistant' %}
        {{- '<|start|>assistant<|channel|>final<|message|>' ~ text(message) ~ '<|end|>' }}
    {%- else %}
        {{- '<|start|>' ~ message.role ~ '<|message|>' ~ text(message) ~ '<|end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant' }}
{%- endif %})"},
};
// clang-format on

std::string known_names() {
  std::string names;
  for (const BuiltinTemplate& row : kTemplates)
    names += str(names.empty() ? "" : ", ", row.name);
  return names;
}

// The template in a tokenizer_config.json: a text, or a list of them of which "default" is taken.
ChatTemplate read_json_template(const std::string& path) {
  const Json json = read_json_file(path);
  const auto found = json.is_object() ? json.find("chat_template") : json.end();
  if (json.is_object() && found != json.end()) {
    if (found->is_string()) return {found->get<std::string>(), path};
    if (found->is_array()) {
      for (const Json& entry : *found) {
        if (!entry.is_object() || entry.value("name", Json()) != "default") continue;
        const Json text = entry.value("template", Json());
        if (text.is_string()) return {text.get<std::string>(), path};
      }
    }
  }
  fail(path, ": has no \"chat_template\"");
}

ChatTemplate read_template(const std::string& path) {
  if (path.ends_with(".json")) return read_json_template(path);
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (bytes.size() > kMaxTemplateBytes) {
    fail(path, ": the template has ", bytes.size(), " bytes, the maximum is ", kMaxTemplateBytes);
  }
  return {{reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path};
}

// The post-processor of a tokenizer.json adds the prefix; GGUF cannot express that, so the template
// must write it.
bool lacks_prefix(const formats::TokenizerData& data, const formats::PromptPrefix& prefix) {
  return !prefix.text.empty() &&
         std::ranges::find(data.tokens, prefix.token) != data.tokens.end() &&
         data.chat_template.find(prefix.token) == std::string::npos;
}

}  // namespace

std::span<const BuiltinTemplate> builtin_templates() {
  return kTemplates;
}

SelectedTemplate select_template(const formats::TokenizerData& data,
                                 const std::string& chosen,
                                 const formats::ChatTraits& traits) {
  const auto named = [](std::string_view name) {
    const auto* found = std::ranges::find(kTemplates, name, &BuiltinTemplate::name);
    return found == kTemplates.end() ? nullptr : found;
  };
  if (!chosen.empty()) {
    if (const BuiltinTemplate* found = named(chosen))
      return {ChatTemplate(found->source, str("built-in template ", found->name)), ""};
    if (!std::filesystem::exists(chosen))
      fail("chat template \"", chosen, "\" is neither a file nor one of ", known_names());
    return {read_template(chosen), ""};
  }
  if (!data.chat_template.empty()) {
    return {ChatTemplate(data.chat_template, "chat template"),
            lacks_prefix(data, traits.prefix)
                ? str("the chat template does not write ", traits.prefix.text,
                      ", the prefix that models of this family expect")
                : ""};
  }
  const formats::MarkedTemplate& marked = traits.marked_template;
  const bool is_marked =
      !marked.token.empty() && std::ranges::find(data.tokens, marked.token) != data.tokens.end();
  const std::string_view family = is_marked ? marked.builtin_template : traits.builtin_template;
  const BuiltinTemplate* found = named(family.empty() ? "chatml" : family);
  GRAFT_CHECK(found != nullptr, "no built-in template ", family);
  return {ChatTemplate(found->source, str("built-in template ", found->name)),
          str("the model has no chat template: using the built-in template ", found->name,
              ", select another with --chat-template")};
}

void set_special_tokens(RenderInput& input, const formats::TokenizerData& data) {
  const auto token = [&](const std::optional<std::int64_t>& id) -> std::optional<std::string> {
    if (!id || *id < 0 || static_cast<std::size_t>(*id) >= data.tokens.size()) return std::nullopt;
    return data.tokens[static_cast<std::size_t>(*id)];
  };
  input.bos_token = token(data.bos_id);
  input.eos_token = token(data.eos_id);
  const auto add = [&](const char* name, const std::optional<std::int64_t>& id) {
    const auto text = token(id);
    if (text && !input.extra.contains(name)) input.extra[name] = *text;
  };
  add("unk_token", data.unk_id);
  add("sep_token", data.sep_id);
  add("pad_token", data.pad_id);
  add("mask_token", data.mask_id);
}

}  // namespace graft::chat
