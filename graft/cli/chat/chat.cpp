// graft chat: interactive chat with a model.

#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "graft/api/chat_format.h"
#include "graft/base/error.h"
#include "graft/base/text/units.h"
#include "graft/cli/chat/input.h"
#include "graft/cli/chat/session.h"
#include "graft/cli/chat/slash_commands.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/options/sampling_options.h"
#include "graft/cli/options/settings.h"
#include "graft/cli/terminal.h"
#include "graft/plan/report.h"
#include "graft/version.h"

namespace graft::cli {
namespace {

struct ChatOptions {
  ModelOptions model;
  ContextOptions context;
  SamplingOptions sampling;
  std::string prompt_file;
  bool stats = false;
  bool enforce_eager = false;
};

// Prints streamed text: reasoning dimmed, control characters replaced by "?".
class AnswerPrinter {
 public:
  void show(const chat::ResponseDelta& part) {
    if (!part.reasoning.empty()) {
      if (!thinking_) fmt::print("{}", tint_start(Tint::Dim, stdout));
      thinking_ = true;
      print(part.reasoning);
    }
    if (!part.content.empty()) {
      if (thinking_) fmt::print("{}\n\n", tint_end(stdout));
      thinking_ = false;
      print(part.content);
    }
    std::fflush(stdout);
  }

  void finish(bool interrupted) {
    if (thinking_) fmt::print("{}", tint_end(stdout));
    if (interrupted) fmt::print("{}", tinted(Tint::Dim, " (stopped)", stdout));
    if (!at_line_start_ || interrupted) fmt::print("\n");
    std::fflush(stdout);
  }

 private:
  void print(const std::string& text) {
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      const bool is_control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
      std::fputc(is_control ? '?' : c, stdout);
    }
    at_line_start_ = text.ends_with('\n');
  }

  bool thinking_ = false;
  bool at_line_start_ = true;
};

void answer(const std::string& text, ChatState& state) {
  AnswerPrinter printer;
  const AnswerStats& stats =
      state.session->ask(text, [&](const chat::ResponseDelta& part) { printer.show(part); });
  printer.finish(stats.interrupted);
  if (!stats.finish.message.empty()) warn(stats.finish.message);
  if (state.show_stats) print_stats(stats, stdout);
}

// Handles one message or command. On a terminal, errors are printed and the chat continues.
void run_turn(LineEditor& editor, ChatState& state) {
  try {
    const Input input = read_input(editor);
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
        answer(input.text, state);
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

void chat(const ChatOptions& options) {
  const std::string first = options.prompt_file.empty() ? "" : read_text_file(options.prompt_file);
  api::LlmConfig config = options.model.config();
  options.context.apply_to(config.engine);
  config.engine.max_num_seqs = 1;
  config.engine.enforce_eager = options.enforce_eager;
  config.engine.idle_release_seconds = -1;  // keeps the conversation in the prefix cache
  const auto llm = options.model.open(config);
  const api::ChatFormat format(*llm, options.sampling.chat_template);
  if (!format.warning().empty()) warn(format.warning());

  Session session(*llm, format);
  session.set_system(options.sampling.system);
  session.params = options.sampling.params();
  session.thinking = options.sampling.thinking();
  ChatState state = {.session = &session, .show_stats = options.stats};
  const InterruptScope scope;  // ignores Ctrl-C between an answer and the next line
  LineEditor editor(history_file());
  if (editor.is_interactive()) print_greeting(*llm);
  if (!first.empty()) answer(first, state);
  while (!state.is_over)
    run_turn(editor, state);
  if (editor.is_interactive()) fmt::print("\n");
}

}  // namespace

void add_chat(Command& app) {
  auto options = std::make_shared<ChatOptions>();
  Command* command = app.add_subcommand("chat", "Chat with a model");
  command->footer(
      "Examples:\n"
      "  graft chat\n"
      "  graft chat -m DeepSeek-V3-Q4_K_M.gguf --rules my.yaml --system \"Be brief.\"\n"
      "Also accepts KTransformers' flags: --gguf_path, --optimize_config_path, --cpu_infer, …");
  options->model.add_to(*command);
  options->context.add_to(*command);
  options->sampling.add_to(*command);
  command->add_option("--prompt-file", options->prompt_file, "File with the first message")
      ->option_text("FILE");
  command->add_flag("--stats", options->stats, "Print token counts and speeds after every answer");
  command->add_flag("--enforce-eager", options->enforce_eager, "Disable CUDA graphs");
  command->callback([options] { chat(*options); });
}

}  // namespace graft::cli
