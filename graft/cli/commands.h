// One function per command, each in a separate file: it adds the command and its callback to the
// program. A callback ends by returning (exit code 0) or by throwing.

#pragma once

#include "graft/cli/command.h"

namespace graft::cli {

void add_chat(Command& app);
void add_run(Command& app);
void add_models(Command& app);
void add_pull(Command& app);
void add_remove(Command& app);
void add_config(Command& app);
void add_completion(Command& app);
void add_man(Command& app);
void add_inspect(Command& app);
void add_convert(Command& app);
void add_quantize(Command& app);
void add_devices(Command& app);
void add_doctor(Command& app);
void add_machine(Command& app);
void add_perplexity(Command& app);
void add_plan(Command& app);
void add_rules(Command& app);
void add_synth(Command& app);
void add_tokenize(Command& app);
void add_detokenize(Command& app);
void add_bench(Command& app);
void add_eval(Command& app);
void add_experts(Command& app);
void add_cache(Command& app);
void add_verify(Command& app);
void add_template(Command& app);
void add_serve(Command& app);

// Called at the end of a callback: makes a code other than 0 the exit code of the program.
void exit_with(int code);

// Runs the program. Exit codes: 0 success, 1 failed check, 2 user error (one line on standard
// error), 70 internal error.
int run(int argc, const char* const* argv);

}  // namespace graft::cli
