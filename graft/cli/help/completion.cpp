// graft completion: prints completion scripts for shells, generated from the program's commands and
// flags.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <fmt/format.h>

#include "graft/cli/commands.h"

namespace graft::cli {
namespace {

struct Flag {
  std::string name;  // "--model"
  std::string help;
  bool takes_value = false;
};

struct CommandEntry {
  std::string path;  // "rules check"; empty: the program
  std::string help;
  std::vector<std::string> subcommands = {};
  std::vector<Flag> flags = {};
};

// The first line without characters that have a meaning in shells.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, text.find('\n'))) {
    if (c != '\'' && c != '"' && c != '`' && c != '[' && c != ']' && c != ':' && c != '\\')
      out += c;
  }
  return out;
}

void collect(const CLI::App& app, const std::string& path, std::vector<CommandEntry>& out) {
  CommandEntry command = {.path = path, .help = plain(app.get_description())};
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      command.flags.push_back(
          {"--" + name, plain(option->get_description()), option->get_items_expected_max() > 0});
    }
  }
  const auto subcommands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* sub : subcommands)
    command.subcommands.push_back(sub->get_name());
  out.push_back(std::move(command));
  for (const CLI::App* sub : subcommands)
    collect(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), out);
}

std::string words_of(const CommandEntry& command) {
  std::string words;
  for (const std::string& sub : command.subcommands)
    words += sub + " ";
  for (const Flag& flag : command.flags)
    words += flag.name + " ";
  if (!words.empty()) words.pop_back();
  return words;
}

// Completes subcommands and flags of the command before the cursor, and file names.
std::string bash_script(const std::vector<CommandEntry>& commands) {
  std::string cases;
  for (const CommandEntry& command : commands)
    cases += fmt::format("    '{}') words='{}' ;;\n", command.path, words_of(command));
  return fmt::format(R"(# bash completion for graft: source <(graft completion bash)
_graft() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} path= words= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${{COMP_WORDS[i]}} in
      -*) break ;;
      *) path="${{path:+$path }}${{COMP_WORDS[i]}}" ;;
    esac
  done
  while :; do
    case $path in
{}    esac
    [ -n "$words" ] || [ -z "$path" ] && break
    [ "$path" = "${{path% *}}" ] && path= || path=${{path% *}}
  done
  case ${{COMP_WORDS[COMP_CWORD - 1]}} in
    -m | --model) words=$(graft models 2> /dev/null | cut -d ' ' -f 1) ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ $current == -* ]] || COMPREPLY+=($(compgen -f -- "$current"))
}}
complete -o filenames -F _graft graft
)",
                     cases);
}

std::string help_of(const std::vector<CommandEntry>& commands, const std::string& path) {
  const auto found = std::ranges::find(commands, path, &CommandEntry::path);
  return found == commands.end() ? "" : found->help;
}

std::string zsh_script(const std::vector<CommandEntry>& commands) {
  std::string cases;
  for (const CommandEntry& command : commands) {
    cases += fmt::format("    '{}')\n", command.path);
    for (const std::string& sub : command.subcommands) {
      const std::string full = command.path.empty() ? sub : command.path + " " + sub;
      cases += fmt::format("      choices+=('{}:{}')\n", sub, help_of(commands, full));
    }
    for (const Flag& flag : command.flags)
      cases += fmt::format("      choices+=('{}:{}')\n", flag.name, flag.help);
    cases += "      ;;\n";
  }
  return fmt::format(R"(#compdef graft
# zsh completion for graft: source <(graft completion zsh), or a file _graft in a folder of $fpath
_graft() {{
  local route= i
  local -a choices
  for ((i = 2; i < CURRENT; ++i)); do
    [[ ${{words[i]}} == -* ]] && break
    route="${{route:+$route }}${{words[i]}}"
  done
  while :; do
    case $route in
{}    esac
    (( ${{#choices}} )) || [[ -z $route ]] && break
    [[ $route == *' '* ]] && route=${{route% *}} || route=
  done
  if [[ ${{words[CURRENT - 1]}} == (-m|--model) ]]; then
    choices=($(graft models 2> /dev/null | cut -d ' ' -f 1))
  fi
  _describe graft choices
  _files
}}
if [[ $funcstack[1] == _graft ]]; then _graft "$@"; else compdef _graft graft; fi
)",
                     cases);
}

// True in fish when all words of the command were typed.
std::string fish_condition(const std::string& path) {
  if (path.empty()) return "__fish_use_subcommand";
  std::string condition;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t space = std::min(path.find(' ', at), path.size());
    condition += fmt::format("{}__fish_seen_subcommand_from {}", condition.empty() ? "" : "; and ",
                             path.substr(at, space - at));
    at = space + 1;
  }
  return condition;
}

std::string fish_script(const std::vector<CommandEntry>& commands) {
  std::string text = "# fish completion for graft: graft completion fish | source\n";
  for (const CommandEntry& command : commands) {
    const std::string condition = fish_condition(command.path);
    for (const std::string& sub : command.subcommands) {
      const std::string full = command.path.empty() ? sub : command.path + " " + sub;
      text += fmt::format("complete -c graft -n '{}' -a '{}' -d '{}'\n", condition, sub,
                          help_of(commands, full));
    }
    for (const Flag& flag : command.flags) {
      const char* values = flag.name == "--model"
                               ? "-s m -a \"(graft models 2> /dev/null | string split -f 1 ' ')\" "
                               : "";
      text += fmt::format("complete -c graft -n '{}' -l '{}' {}{}-d '{}'\n", condition,
                          flag.name.substr(2), flag.takes_value ? "-r " : "", values, flag.help);
    }
  }
  return text;
}

}  // namespace

void add_completion(Command& app) {
  auto shell = std::make_shared<std::string>();
  Command* command = app.add_subcommand("completion", "Print a shell completion script");
  command->footer("Example:\n  source <(graft completion bash)");
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(IsMember({"bash", "zsh", "fish"}));
  command->callback([&app, shell] {
    std::vector<CommandEntry> commands;
    collect(app.app(), "", commands);
    fmt::print("{}", *shell == "bash"  ? bash_script(commands)
                     : *shell == "zsh" ? zsh_script(commands)
                                       : fish_script(commands));
  });
}

}  // namespace graft::cli
