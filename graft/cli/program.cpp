#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/cli/commands.h"
#include "graft/cli/help/unknown_command.h"
#include "graft/cli/options/foreign/foreign_flags.h"
#include "graft/cli/options/settings.h"
#include "graft/cli/terminal.h"
#include "graft/version.h"

namespace graft::cli {
namespace {

constexpr int kMinColumns = 40;  // help is not wrapped in narrower terminals
constexpr int kUserError = 2;
constexpr int kInternalError = 70;  // EX_SOFTWARE

// "help" and no command at all mean --help, "help COMMAND" the help of the command.
void translate_help(std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    arguments.emplace_back("--help");
  } else if (arguments[0] == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
}

void check_command(const std::vector<std::string>& arguments, const Command& app) {
  if (arguments[0].starts_with('-')) return;
  std::vector<std::string> commands;
  for (const CLI::App* command : app.app().get_subcommands({}))
    commands.push_back(command->get_name());
  if (std::ranges::find(commands, arguments[0]) == commands.end())
    fail(unknown_command(arguments[0], commands));
}

std::vector<std::string> arguments_of(int argc, const char* const* argv, const Command& app) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  translate_help(arguments);
  check_command(arguments, app);
  arguments = translate_flags(arguments);
  // CLI11 expects the arguments without the program name, in reverse order.
  std::ranges::reverse(arguments);
  return arguments;
}

int print_error(const char* what, int code) {
  fmt::print(stderr, "graft: {}\n", what);
  return code;
}

int print_internal_error(const std::exception& error) {
  return print_error(fmt::format("internal error: {}", error.what()).c_str(), kInternalError);
}

int run_command(Command& app, int argc, const char* const* argv) {
  try {
    Settings(settings_file()).apply(app);
    app.app().parse(arguments_of(argc, argv, app));
    return 0;
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    // CLI11 also throws for --help and --version, with exit code 0.
    if (error.get_exit_code() != 0) throw;
    std::ostringstream help;
    const int code = app.app().exit(error, help, help);
    const int columns = terminal_columns(stdout);
    fmt::print("{}", columns < kMinColumns ? help.str() : wrapped(help.str(), columns));
    return code;
  }
}

}  // namespace

void exit_with(int code) {
  if (code != 0) throw CLI::RuntimeError(code);
}

int run(int argc, const char* const* argv) {
  Command app("Runs large language models on CPUs, GPUs or both.", "graft");
  app.require_subcommand(1);
  app.app().set_version_flag("--version", "graft " GRAFT_VERSION);
  add_chat(app);
  add_run(app);
  add_serve(app);
  add_models(app);
  add_pull(app);
  add_remove(app);
  add_inspect(app);
  add_convert(app);
  add_quantize(app);
  add_devices(app);
  add_doctor(app);
  add_machine(app);
  add_plan(app);
  add_rules(app);
  add_verify(app);
  add_synth(app);
  add_tokenize(app);
  add_detokenize(app);
  add_perplexity(app);
  add_eval(app);
  add_experts(app);
  add_cache(app);
  add_bench(app);
  add_template(app);
  add_config(app);
  add_completion(app);
  add_man(app);
  try {
    const int code = run_command(app, argc, argv);
    flush_output();
    return code;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "graft: {}\nRun 'graft --help' or 'graft COMMAND --help'.\n", error.what());
    return kUserError;
  } catch (const Error& error) {
    return print_error(error.what(), kUserError);
  } catch (const std::bad_alloc&) {
    return print_error("out of memory", kUserError);
  } catch (const std::system_error& error) {
    // fmt throws it when a stream cannot be written.
    if (std::ferror(stdout) == 0) return print_internal_error(error);
    return print_error(
        fmt::format("standard output: cannot write: {}", error.code().message()).c_str(),
        kUserError);
  } catch (const std::exception& error) {
    return print_internal_error(error);
  }
}

}  // namespace graft::cli
