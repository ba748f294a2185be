// custom_rules MODEL RULES.yaml PROMPT: runs a model with a rule file and a small KV cache.

#include <cstdio>
#include <string>

#include <graft/llm.h>

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: custom_rules MODEL RULES.yaml PROMPT\n");
    return 2;
  }
  try {
    graft::LlmConfig config;
    config.rules = argv[2];
    config.engine.max_model_len = 1024;
    config.engine.max_num_seqs = 4;
    graft::LLM llm(argv[1], config);
    graft::SamplingParams params;
    params.temperature = 0;
    params.max_tokens = 48;
    std::printf("%s\n", llm.generate({std::string(argv[3])}, params)[0].samples[0].text.c_str());
  } catch (const graft::Error& error) {  // lists all errors of the rule file with their lines
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
