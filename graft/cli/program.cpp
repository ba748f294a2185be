#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/version.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/ktransformers_flags.h"
#include "graft/cli/options/settings.h"

namespace graft::cli {
namespace {

constexpr int kUserError = 2;
constexpr int kBug = 70;  // EX_SOFTWARE

// What CLI11 takes: without the program's name, the last one first.
std::vector<std::string> arguments_of(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (!arguments.empty() && arguments[0] == "chat") arguments = translate_ktransformers(arguments);
  std::ranges::reverse(arguments);
  return arguments;
}

int complain(const char* what, int code) {
  fmt::print(stderr, "graft: {}\n", what);
  return code;
}

}  // namespace

void exit_with(int code) {
  if (code != 0) throw CLI::RuntimeError(code);
}

int run(int argc, const char* const* argv) {
  CLI::App app("Runs large language models on what a machine has.", "graft");
  app.require_subcommand(1);
  app.set_version_flag("--version", "graft " GRAFT_VERSION);
  add_chat(app);
  add_run(app);
  add_serve(app);
  add_models(app);
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
  add_bench(app);
  add_template(app);
  add_config(app);
  add_completion(app);
  try {
    Settings(settings_file()).apply(app);
    app.parse(arguments_of(argc, argv));
    return 0;
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    // Help and version are "errors" too, of code 0. The rest is one line and where to read on.
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "graft: {}\nRun 'graft --help' or 'graft COMMAND --help'.\n", error.what());
    return kUserError;
  } catch (const Error& error) {
    return complain(error.what(), kUserError);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", kUserError);
  } catch (const std::exception& error) {
    return complain(fmt::format("internal error: {}", error.what()).c_str(), kBug);
  }
}

}  // namespace graft::cli
