// One function per command, each in its own file: adds the command to the program and says what it
// does when chosen. A command ends by returning (exit code 0) or by throwing.

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

// Ends the program with that code once the command returns; 0 goes on as usual.
void exit_with(int code);

// The whole program: exit code 0, 1 when a check says no, 2 for input that the user can mend (one
// line on standard error), 70 for a bug.
int run(int argc, const char* const* argv);

}  // namespace graft::cli
