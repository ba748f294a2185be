// offline_batch MODEL PROMPT...: generates for a batch of prompts and prints token counts and
// times.

#include <cstdio>
#include <string>
#include <vector>

#include <graft/llm.h>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: offline_batch MODEL PROMPT...\n");
    return 2;
  }
  try {
    graft::LLM llm(argv[1]);
    graft::SamplingParams params;
    params.temperature = 0;  // greedy
    params.max_tokens = 48;
    const std::vector<graft::Prompt> prompts(argv + 2, argv + argc);
    for (const graft::Output& output : llm.generate(prompts, params)) {
      const graft::Sample& sample = output.samples[0];
      std::printf("%s\n[%lld prompt tokens, %lld cached; %zu new tokens in %.2f s: %s]\n",
                  sample.text.c_str(), static_cast<long long>(output.num_prompt),
                  static_cast<long long>(output.num_cached), sample.tokens.size(),
                  sample.timings.total_seconds,
                  std::string(to_string(sample.finish.reason)).c_str());
    }
  } catch (const graft::Error& error) {  // the user can fix it: a bad file or parameter
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
