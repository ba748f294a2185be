#include "graft/cli/model_options.h"

#include "graft/base/processors.h"

namespace graft::cli {

void ModelOptions::add_to(CLI::App& command) {
  command.add_option("-m,--model", path, "GGUF file or Hugging Face folder")->required();
  command.add_option("--rules", rules, "Rule file instead of the default");
  plugins.add_to(command);
  command.add_option("-t,--threads", threads, "Threads (default: one per core)")
      ->check(CLI::Range(1, 4096));
  command.add_option("--cpu-list", processors, "Pin the threads to these processors (0-3,8)");
  command.add_flag("--no-repack", no_repack,
                   "Run from the mapped file: there at once, exact, and slow");
}

api::LlmConfig ModelOptions::config() const {
  api::LlmConfig config;
  config.rules = rules;
  config.plugins = plugins.paths();
  config.num_threads = threads;
  if (!processors.empty()) config.processors = parse_processors(processors);
  config.repack = !no_repack;
  return config;
}

}  // namespace graft::cli
