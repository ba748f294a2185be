// graft template: renders messages with a chat template and prints the prompt.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/chat/builtin_templates.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/terminal.h"
#include "graft/cli/text_file.h"
#include "graft/models/families/family.h"
#include "graft/models/weights/checkpoint.h"

namespace graft::cli {
namespace {

struct TemplateOptions {
  ModelChoice model;  // not opened when a template is given without a model
  std::string chat_template;
  std::string messages;
  std::string tools;
  std::string bos;
  std::string eos;
  std::vector<std::string> variables;  // KEY=JSON
  bool has_bos = false;
  bool has_eos = false;
  bool no_generation_prompt = false;
  bool json = false;
};

void read_conversation(const TemplateOptions& options, chat::RenderInput& input) {
  OrderedJson json = parse_ordered_json(read_text_file(options.messages), options.messages);
  if (json.is_object()) {
    if (!json.contains("messages")) fail(options.messages, ": has no key \"messages\"");
    if (json.contains("tools")) input.tools = json["tools"];
    input.messages = json["messages"];
  } else {
    input.messages = std::move(json);
  }
  if (!input.messages.is_array())
    fail(options.messages, ": expected a list of messages, got ", input.messages.type_name());
  if (!options.tools.empty())
    input.tools = parse_ordered_json(read_text_file(options.tools), options.tools);
}

void read_variables(const TemplateOptions& options, chat::RenderInput& input) {
  for (const std::string& variable : options.variables) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos || equals == 0) fail("--set ", variable, ": expected KEY=JSON");
    const std::string name = variable.substr(0, equals);
    input.extra[name] = parse_ordered_json(variable.substr(equals + 1), "--set " + name);
  }
}

void render(const TemplateOptions& options) {
  chat::RenderInput input;
  formats::TokenizerData data;
  formats::ChatTraits traits;
  if (!options.model.text.empty() || options.chat_template.empty()) {
    const auto checkpoint = models::open_checkpoint(options.model.path());
    data = checkpoint->tokenizer();
    if (const models::Family* family = checkpoint->config().family) traits = family->chat;
  }
  chat::set_special_tokens(input, data);
  if (options.has_bos) input.bos_token = options.bos;
  if (options.has_eos) input.eos_token = options.eos;
  input.add_generation_prompt = !options.no_generation_prompt;
  read_conversation(options, input);
  read_variables(options, input);
  const chat::SelectedTemplate selected =
      chat::select_template(data, options.chat_template, traits);
  if (!selected.warning.empty()) warn(selected.warning);
  const std::string text = selected.chat_template.render(input);
  if (options.json) {
    fmt::print("{}\n", Json{{"prompt", text}}.dump());
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
}

}  // namespace

void add_template(Command& app) {
  auto options = std::make_shared<TemplateOptions>();
  Command* command =
      app.add_subcommand("template", "Render messages with a chat template and print the prompt");
  options->model.add_to(*command, "MODEL");
  command->add_option("--template,--chat-template", options->chat_template,
                      "Chat template file or built-in name, e.g. chatml (default: the model's)");
  command
      ->add_option(
          "--messages", options->messages,
          "JSON file with a list of messages, or an object with messages and tools; - reads "
          "standard input")
      ->required();
  command->add_option("--tools", options->tools, "JSON file with a list of tool definitions");
  Option* bos =
      command->add_option("--bos", options->bos, "Value of bos_token (default: the model's)");
  Option* eos =
      command->add_option("--eos", options->eos, "Value of eos_token (default: the model's)");
  command->add_flag("--no-generation-prompt", options->no_generation_prompt,
                    "Do not append the generation prompt");
  command->add_flag("--json", options->json, "Print JSON");
  command
      ->add_option("--set", options->variables,
                   "Set a template variable, e.g. enable_thinking=false; repeatable")
      ->take_all()
      ->expected(1);
  command->callback([options, bos, eos] {
    options->has_bos = bos->count() > 0;
    options->has_eos = eos->count() > 0;
    render(*options);
  });
}

}  // namespace graft::cli
