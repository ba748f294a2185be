// One function per command, each in a separate file: it adds the command and its callback to the
// program. A callback ends by returning (exit code 0) or by throwing.

#pragma once

#include <CLI/App.hpp>

namespace graft::cli {

void add_chat(CLI::App& app);
void add_run(CLI::App& app);
void add_models(CLI::App& app);
void add_config(CLI::App& app);
void add_completion(CLI::App& app);
void add_inspect(CLI::App& app);
void add_convert(CLI::App& app);
void add_quantize(CLI::App& app);
void add_devices(CLI::App& app);
void add_doctor(CLI::App& app);
void add_machine(CLI::App& app);
void add_perplexity(CLI::App& app);
void add_plan(CLI::App& app);
void add_rules(CLI::App& app);
void add_synth(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_detokenize(CLI::App& app);
void add_bench(CLI::App& app);
void add_eval(CLI::App& app);
void add_verify(CLI::App& app);
void add_template(CLI::App& app);
void add_serve(CLI::App& app);

// Called at the end of a callback: makes a code other than 0 the exit code of the program.
void exit_with(int code);

// Runs the program. Exit codes: 0 success, 1 failed check, 2 user error (one line on standard
// error), 70 internal error.
int run(int argc, const char* const* argv);

}  // namespace graft::cli
