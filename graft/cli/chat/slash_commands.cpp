#include "graft/cli/chat/slash_commands.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/cli/chat/answer_printer.h"
#include "graft/cli/chat/clipboard.h"
#include "graft/cli/chat/dropped_images.h"
#include "graft/cli/terminal.h"
#include "graft/plan/report.h"

namespace graft::cli {
namespace {

struct SlashCommand {
  std::string_view name;
  std::string_view arguments;
  std::string_view help;
  void (*run)(const std::string& argument, ChatState& state);
};

void print_dim(const std::string& text) {
  fmt::print("{}\n", tinted(Tint::Dim, text, stdout));
}

void require(const std::string& argument, std::string_view what) {
  if (argument.empty()) fail("missing argument: ", what);
}

void help(const std::string& argument, ChatState& state);

void system(const std::string& argument, ChatState& state) {
  if (argument.empty()) {
    print_dim(state.session->system().empty() ? "no system prompt" : state.session->system());
    return;
  }
  state.session->set_system(argument == "none" ? "" : argument);
  print_dim("the system prompt applies from the next message");
}

void reset(const std::string& /*argument*/, ChatState& state) {
  state.session->reset();
  print_dim("conversation cleared");
}

void save(const std::string& argument, ChatState& state) {
  require(argument, "file");
  state.session->save(argument);
  print_dim(fmt::format("{} messages saved to {}", state.session->num_messages(), argument));
}

void load(const std::string& argument, ChatState& state) {
  require(argument, "file");
  const std::string problem = state.session->load(argument);
  if (!problem.empty()) warn(problem + "; the next message computes the conversation again");
  print_dim(fmt::format("{} messages from {}", state.session->num_messages(), argument));
}

void retry(const std::string& /*argument*/, ChatState& state) {
  print_answer("", true, state);
}

void copy(const std::string& argument, ChatState& state) {
  if (!argument.empty() && argument != "code") fail("usage: /copy or /copy code");
  const std::string answer = state.session->last_answer();
  if (answer.empty()) fail("/copy: no answer yet");
  const std::optional<std::string> code = last_code_block(answer);
  if (argument == "code" && !code) fail("/copy code: the last answer has no code block");
  if (!is_terminal(stdout)) fail("/copy: standard output is not a terminal");
  const std::string& text = argument == "code" ? *code : answer;
  fmt::print("{}", clipboard_code(text));
  print_dim(fmt::format("{} bytes sent to the terminal's clipboard", text.size()));
}

void tokens(const std::string& /*argument*/, ChatState& state) {
  const Session& session = *state.session;
  const std::int64_t used = session.num_context_tokens();
  print_dim(fmt::format("context: {} of {} tokens ({} %), {} messages, {} of them left out", used,
                        session.max_context(), used * 100 / session.max_context(),
                        session.num_messages(), session.num_left_out()));
  if (!session.last_stats()) return;
  const AnswerStats& last = *session.last_stats();
  print_dim(fmt::format("last turn: prompt {} tokens, {} of them cached; answer {} tokens",
                        last.num_prompt, last.num_cached, last.num_output));
}

void model(const std::string& argument, ChatState& state) {
  if (argument.empty()) {
    print_dim(state.session->llm().source().config().name);
    return;
  }
  state.switch_model(argument);
}

void stats(const std::string& argument, ChatState& state) {
  if (argument == "on" || argument == "off") {
    state.show_stats = argument == "on";
    print_dim("statistics after every answer: " + argument);
  } else if (!argument.empty()) {
    fail("usage: /stats, /stats on or /stats off");
  } else if (state.session->last_stats()) {
    print_stats(*state.session->last_stats(), stdout);
  } else {
    print_dim("no answer yet");
  }
}

void set(const std::string& argument, ChatState& state) {
  if (!argument.empty()) state.session->set(argument);
  fmt::print("{}", state.session->settings_text());
}

void think(const std::string& argument, ChatState& state) {
  constexpr std::array<std::string_view, 3> kWords = {"auto", "on", "off"};
  const auto* word = std::ranges::find(kWords, argument.empty() ? "on" : argument);
  if (word == kWords.end()) fail("usage: /think on, /think off or /think auto");
  state.session->thinking = static_cast<api::Thinking>(word - kWords.begin());
  print_dim(fmt::format("thinking: {}", *word));
}

void image(const std::string& argument, ChatState& state) {
  require(argument, "file");
  attach_image(typed_path(argument), state);
}

void rules(const std::string& /*argument*/, ChatState& state) {
  fmt::print("{}", plan::plan_text(state.session->llm().plan()));
}

void quit(const std::string& /*argument*/, ChatState& state) {
  state.is_over = true;
}

constexpr std::array kCommands = {
    SlashCommand{"help", "", "this list", help},
    SlashCommand{"system", "[TEXT|none]", "show or change the system prompt", system},
    SlashCommand{"model", "[NAME]", "show or switch the model, with the conversation", model},
    SlashCommand{"image", "FILE", "put an image before the next message", image},
    SlashCommand{"retry", "", "answer the last message again", retry},
    SlashCommand{"copy", "[code]", "copy the last answer, or its last code block", copy},
    SlashCommand{"tokens", "", "how full the context is", tokens},
    SlashCommand{"reset", "", "clear the conversation", reset},
    SlashCommand{"save", "FILE", "save the conversation and its KV cache", save},
    SlashCommand{"load", "FILE", "load a saved conversation", load},
    SlashCommand{"stats", "[on|off]", "token counts and speeds of the last or of every answer",
                 stats},
    SlashCommand{"set", "[NAME=VALUE]", "show or change sampling parameters", set},
    SlashCommand{"think", "on|off|auto", "turn reasoning on or off", think},
    SlashCommand{"rules", "", "show the placement of the modules", rules},
    SlashCommand{"quit", "", "quit (also Ctrl-D)", quit},
};

constexpr auto kCommandNames = [] {
  std::array<std::string_view, kCommands.size()> names;
  std::ranges::transform(kCommands, names.begin(), &SlashCommand::name);
  return names;
}();

void help(const std::string& /*argument*/, ChatState& /*state*/) {
  for (const SlashCommand& command : kCommands) {
    fmt::print("{:<24} {}\n", fmt::format("/{} {}", command.name, command.arguments), command.help);
  }
  fmt::print(
      "\"\"\"                      start and end of a message of several lines\n"
      "PATH or @PATH            insert the contents of a file\n"
      "Tab                      complete commands, paths and model names\n"
      "Ctrl-R                   search the history\n"
      "Ctrl-C                   stop the answer, or drop the line\n");
}

}  // namespace

void print_answer(const std::string& text, bool is_retry, ChatState& state) {
  Session& session = *state.session;
  AnswerPrinter printer(state.has_markdown);
  const std::size_t num_left_out = session.num_left_out();
  const auto show = [&](const chat::ResponseDelta& part) { printer.show(part); };
  const AnswerStats* answer = is_retry ? &session.retry(show) : session.ask(text, show);
  if (answer == nullptr) return;  // another call is open
  const AnswerStats& last = *answer;
  printer.finish(last.interrupted);
  for (const OrderedJson& call : session.last_calls())
    fmt::print("{}\n", tinted(Tint::Dim, call_text(call), stdout));
  if (!last.finish.message.empty()) warn(last.finish.message);
  if (session.num_left_out() > num_left_out) {
    warn(
        fmt::format("the context of {} tokens is full: the model no longer sees the first {} "
                    "messages; /reset begins a new conversation",
                    session.max_context(), session.num_left_out()));
  }
  if (state.show_stats) print_stats(last, stdout);
}

std::string call_text(const OrderedJson& call) {
  const OrderedJson& function = call.at("function");
  return terminal_safe(str(function.at("name").get<std::string>(), ' ',
                           function.at("arguments").get<std::string>()));
}

std::span<const std::string_view> slash_command_names() {
  return kCommandNames;
}

void attach_image(const std::filesystem::path& path, ChatState& state) {
  state.session->add_image(path);
  print_dim(fmt::format("{} before the next message", path.string()));
}

void run_slash_command(const std::string& line, ChatState& state) {
  const std::size_t space = std::min(line.find(' '), line.size());
  const std::string name = line.substr(1, space - 1);
  const std::size_t begin = std::min(line.find_first_not_of(' ', space), line.size());
  const auto* command = std::ranges::find(kCommands, name, &SlashCommand::name);
  if (command == kCommands.end()) fail("unknown command /", name, "; see /help");
  command->run(line.substr(begin), state);
}

}  // namespace graft::cli
