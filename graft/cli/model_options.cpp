#include "graft/cli/model_options.h"

namespace graft::cli {

void ModelOptions::add_to(CLI::App& command) {
  command.add_option("-m,--model", path, "GGUF file or Hugging Face folder")->required();
  command.add_option("--rules", rules, "Rule file instead of the default");
  plugins.add_to(command);
  command.add_option("-t,--threads", threads, "Threads (default: all processors)")
      ->check(CLI::Range(1, 4096));
}

api::LlmConfig ModelOptions::config() const {
  return {.engine = {}, .rules = rules, .plugins = plugins.paths(), .num_threads = threads};
}

}  // namespace graft::cli
