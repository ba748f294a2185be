#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/ktransformers_flags.h"
#include "graft/cli/options/settings.h"
#include "graft/version.h"

namespace graft::cli {
namespace {

constexpr int kUserError = 2;
constexpr int kInternalError = 70;  // EX_SOFTWARE

// CLI11 expects the arguments without the program name, in reverse order.
std::vector<std::string> arguments_of(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (!arguments.empty() && arguments[0] == "chat") arguments = translate_ktransformers(arguments);
  std::ranges::reverse(arguments);
  return arguments;
}

int print_error(const char* what, int code) {
  fmt::print(stderr, "graft: {}\n", what);
  return code;
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
  try {
    Settings(settings_file()).apply(app);
    app.app().parse(arguments_of(argc, argv));
    return 0;
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    // CLI11 also throws for --help and --version, with exit code 0.
    if (error.get_exit_code() == 0) return app.app().exit(error);
    fmt::print(stderr, "graft: {}\nRun 'graft --help' or 'graft COMMAND --help'.\n", error.what());
    return kUserError;
  } catch (const Error& error) {
    return print_error(error.what(), kUserError);
  } catch (const std::bad_alloc&) {
    return print_error("out of memory", kUserError);
  } catch (const std::exception& error) {
    return print_error(fmt::format("internal error: {}", error.what()).c_str(), kInternalError);
  }
}

}  // namespace graft::cli
