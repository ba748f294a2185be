#include "graft/cli/chat/slash_commands.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>

#include "graft/base/error.h"
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

void say(const std::string& text) {
  fmt::print("{}\n", tinted(Tint::Dim, text, stdout));
}

void need(const std::string& argument, std::string_view what) {
  if (argument.empty()) fail("a ", what, " is needed");
}

void help(const std::string& argument, ChatState& state);

void system(const std::string& argument, ChatState& state) {
  if (argument.empty()) {
    say(state.session->system().empty() ? "no system prompt" : state.session->system());
    return;
  }
  state.session->set_system(argument == "none" ? "" : argument);
  say("the system prompt holds from the next message on");
}

void reset(const std::string& /*argument*/, ChatState& state) {
  state.session->reset();
  say("the conversation begins anew");
}

void save(const std::string& argument, ChatState& state) {
  need(argument, "file");
  state.session->save(argument);
  say(fmt::format("{} messages saved in {}", state.session->num_messages(), argument));
}

void load(const std::string& argument, ChatState& state) {
  need(argument, "file");
  state.session->load(argument);
  say(fmt::format("{} messages from {}", state.session->num_messages(), argument));
}

void stats(const std::string& argument, ChatState& state) {
  if (argument == "on" || argument == "off") {
    state.show_stats = argument == "on";
    say("statistics after every answer: " + argument);
  } else if (!argument.empty()) {
    fail("/stats, /stats on or /stats off");
  } else if (state.session->last_stats()) {
    print_stats(*state.session->last_stats(), stdout);
  } else {
    say("no answer yet");
  }
}

void set(const std::string& argument, ChatState& state) {
  if (!argument.empty()) state.session->set(argument);
  fmt::print("{}", state.session->settings_text());
}

void think(const std::string& argument, ChatState& state) {
  constexpr std::array<std::string_view, 3> kWords = {"auto", "on", "off"};
  const auto* word = std::ranges::find(kWords, argument.empty() ? "on" : argument);
  if (word == kWords.end()) fail("/think on, /think off or /think auto");
  state.session->thinking = static_cast<api::Thinking>(word - kWords.begin());
  say(fmt::format("thinking: {}", *word));
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
    SlashCommand{"reset", "", "begin the conversation anew", reset},
    SlashCommand{"save", "FILE", "keep the conversation in a file", save},
    SlashCommand{"load", "FILE", "go on with a kept conversation", load},
    SlashCommand{"stats", "[on|off]", "counts and speeds of the last answer, or of every one",
                 stats},
    SlashCommand{"set", "[NAME=VALUE]", "show or change how tokens are chosen", set},
    SlashCommand{"think", "on|off|auto", "whether a model that reasons does so", think},
    SlashCommand{"rules", "", "what runs where", rules},
    SlashCommand{"quit", "", "leave (also Ctrl-D)", quit},
};

void help(const std::string& /*argument*/, ChatState& /*state*/) {
  for (const SlashCommand& command : kCommands) {
    fmt::print("{:<24} {}\n", fmt::format("/{} {}", command.name, command.arguments), command.help);
  }
  fmt::print(
      "\"\"\"                      begins and ends a message of several lines\n"
      "PATH or @PATH            a file in the place of its name\n"
      "Ctrl-C                   stops the answer, or drops the line\n");
}

}  // namespace

void run_slash_command(const std::string& line, ChatState& state) {
  const std::size_t space = std::min(line.find(' '), line.size());
  const std::string name = line.substr(1, space - 1);
  const std::size_t begin = std::min(line.find_first_not_of(' ', space), line.size());
  const auto* command = std::ranges::find(kCommands, name, &SlashCommand::name);
  if (command == kCommands.end()) fail("/", name, " is not known; /help lists what is");
  command->run(line.substr(begin), state);
}

}  // namespace graft::cli
