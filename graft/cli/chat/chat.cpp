// graft chat: interactive chat with a model.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graft/api/chat_format.h"
#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/base/text/units.h"
#include "graft/cli/chat/input.h"
#include "graft/cli/chat/session.h"
#include "graft/cli/chat/slash_commands.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/options/sampling_options.h"
#include "graft/cli/options/settings.h"
#include "graft/cli/terminal.h"
#include "graft/cli/text_file.h"
#include "graft/plan/report.h"
#include "graft/version.h"

namespace graft::cli {
namespace {

struct ChatOptions {
  ModelOptions model;
  ContextOptions context;
  SamplingOptions sampling;
  std::string prompt_file;
  std::string tools;  // file
  std::string save;   // files of conversations
  std::string resume;
  std::string full_context = "drop";
  bool stats = false;
  bool no_markdown = false;
  bool enforce_eager = false;
};

// A loaded model with its chat template.
struct ChatModel {
  std::unique_ptr<api::LLM> llm;
  std::unique_ptr<api::ChatFormat> format;
};

// ">>> ", after the share of the context that is used where it is worth knowing, or the name of the
// tool whose result is due.
std::string prompt_text(const Session& session) {
  const OrderedJson call = session.open_call();
  if (!call.is_null()) {
    return fmt::format("result of {} >>> ",
                       terminal_safe(call.at("function").at("name").get<std::string>()));
  }
  constexpr std::int64_t kShownFrom = 10;  // percent
  const std::int64_t percent = session.num_context_tokens() * 100 / session.max_context();
  return percent < kShownFrom ? ">>> " : fmt::format("{}% >>> ", percent);
}

// Handles one message or command. On a terminal, errors are printed and the chat continues.
void run_turn(LineEditor& editor, ChatState& state) {
  try {
    const Input input = read_input(editor, prompt_text(*state.session));
    for (const std::filesystem::path& path : input.images)
      attach_image(path, state);
    switch (input.kind) {
      case Input::Kind::End:
        state.is_over = true;
        break;
      case Input::Kind::Nothing:
        break;
      case Input::Kind::Command:
        run_slash_command(input.text, state);
        break;
      case Input::Kind::Message:
        print_answer(input.text, false, state);
        break;
    }
  } catch (const Error& error) {
    fmt::print(stderr, "{} {}\n", tinted(Tint::Red, "graft:", stderr), error.what());
    if (!editor.is_interactive()) throw;
  }
}

void print_greeting(const api::LLM& llm) {
  const models::ModelConfig& config = llm.source().config();
  const std::string text =
      fmt::format("{}: {}, context {} tokens. /help for commands, Ctrl-D to leave.",
                  config.name.empty() ? "unnamed model" : config.name,
                  bytes_text(plan::weight_bytes(llm.plan())), llm.config().max_model_len);
  fmt::print("{}\n", tinted(Tint::Dim, text, stdout));
}

std::filesystem::path history_file() {
  const std::filesystem::path folder = user_folder("XDG_STATE_HOME", ".local/state");
  return folder.empty() ? folder : folder / "chat_history";
}

ChatModel open_model(const ChatOptions& options) {
  api::LlmConfig config = options.model.config();
  options.context.apply_to(config.engine);
  config.engine.max_num_seqs = 1;
  config.engine.enforce_eager = options.enforce_eager;
  config.engine.idle_release_seconds = -1;  // keeps the conversation in the prefix cache
  ChatModel model;
  model.llm = options.model.open(config);
  model.format = std::make_unique<api::ChatFormat>(*model.llm, options.sampling.chat_template);
  if (!model.format->warning().empty()) warn(model.format->warning());
  return model;
}

// Loads the model of this name in place of the current one, which is freed first: both may not fit
// into memory. Loads the current one again when that fails.
void switch_model(const std::string& name,
                  ChatOptions& options,
                  ChatModel& model,
                  Session& session) {
  find_model(name, options.model.model.catalog());
  const std::string current = std::exchange(options.model.model.text, name);
  model = {};
  try {
    model = open_model(options);
  } catch (const Error&) {
    options.model.model.text = current;
    model = open_model(options);
    session.set_model(*model.llm, *model.format);
    throw;
  }
  session.set_model(*model.llm, *model.format);
  print_greeting(*model.llm);
}

std::vector<std::string> model_names(const ModelChoice& choice) {
  std::vector<std::string> names;
  for (const api::ModelEntry& entry : choice.catalog().list())
    names.push_back(entry.name);
  return names;
}

// Before a long conversation: the folder of --save must exist.
void check_save_folder(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    fail("--save ", file, ": no folder ", folder.string());
}

void resume(const std::string& file, Session& session) {
  const std::string problem = session.load(file);
  if (!problem.empty()) warn(problem + "; the next message computes the conversation again");
}

void chat(ChatOptions& options) {
  const std::string first = options.prompt_file.empty() ? "" : read_text_file(options.prompt_file);
  OrderedJson tools;
  if (!options.tools.empty())
    tools = parse_ordered_json(read_text_file(options.tools), options.tools);
  if (!options.save.empty()) check_save_folder(options.save);
  ChatModel model = open_model(options);
  Session session(*model.llm, *model.format);
  session.set_tools(std::move(tools));
  session.set_system(options.sampling.system);
  session.params = options.sampling.params(model.llm->source().config());
  session.thinking = options.sampling.thinking();
  if (options.full_context == "stop") session.full_context = FullContext::Stop;
  if (!options.resume.empty()) resume(options.resume, session);
  ChatState state = {
      .session = &session,
      .switch_model = [&](const std::string& name) { switch_model(name, options, model, session); },
      .has_markdown = !options.no_markdown,
      .show_stats = options.stats};
  const InterruptScope scope;  // ignores Ctrl-C between an answer and the next line
  LineEditor editor(history_file(), slash_command_names(),
                    [&] { return model_names(options.model.model); });
  if (editor.is_interactive()) print_greeting(*model.llm);
  if (!first.empty()) print_answer(first, false, state);
  while (!state.is_over)
    run_turn(editor, state);
  if (editor.is_interactive()) fmt::print("\n");
  if (!options.save.empty()) session.save(options.save);
}

}  // namespace

void add_chat(Command& app) {
  auto options = std::make_shared<ChatOptions>();
  Command* command = app.add_subcommand("chat", "Chat with a model");
  command->footer(
      "Examples:\n"
      "  graft chat\n"
      "  graft chat ollama:llama3.2:1b\n"
      "  graft chat -m DeepSeek-V3-Q4_K_M.gguf --rules my.yaml --system \"Be brief.\"\n"
      "Also accepts KTransformers' flags: --gguf_path, --optimize_config_path, --cpu_infer, …");
  options->model.add_to(*command, "MODEL");
  options->context.add_to(*command);
  options->sampling.add_to(*command);
  command->add_option("--prompt-file", options->prompt_file, "File with the first message")
      ->option_text("FILE");
  command
      ->add_option("--tools", options->tools,
                   "JSON file: the tools that the model may call, a list in OpenAI's format; the "
                   "chat shows the calls and asks for their results")
      ->option_text("FILE");
  command
      ->add_option("--save", options->save,
                   "Save the conversation to this file at the end, its KV cache to FILE.kv")
      ->option_text("FILE");
  command
      ->add_option("--resume", options->resume,
                   "Continue a saved conversation; FILE.kv saves computing it again")
      ->option_text("FILE");
  command
      ->add_option("--full-context", options->full_context,
                   "When the context is full: drop the oldest turns, or stop")
      ->check(IsMember({"drop", "stop"}))
      ->option_text("drop|stop");
  command->add_flag("--no-markdown", options->no_markdown, "Print answers as they are");
  command->add_flag("--stats", options->stats, "Print token counts and speeds after every answer");
  command->add_flag("--enforce-eager", options->enforce_eager, "Disable CUDA graphs");
  command->callback([options] { chat(*options); });
}

}  // namespace graft::cli
