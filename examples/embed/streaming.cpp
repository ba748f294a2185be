// streaming MODEL PROMPT SECONDS: streams the generated text and aborts after SECONDS.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>

#include <graft/llm.h>

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: streaming MODEL PROMPT SECONDS\n");
    return 2;
  }
  try {
    graft::LLM llm(argv[1]);
    graft::SamplingParams params;
    params.temperature = 0.8;
    params.seed = 1;
    params.max_tokens = 200;
    std::promise<std::string> ended;
    // Called on the engine thread for every text delta, and once with the finish reason.
    const graft::RequestId request = llm.submit(argv[2], params, [&](const graft::Update& update) {
      std::fputs(update.text.c_str(), stdout);
      std::fflush(stdout);
      if (update.finish) ended.set_value(std::string(to_string(update.finish->reason)));
    });
    std::future<std::string> reason = ended.get_future();
    const auto timeout = std::chrono::duration<double>(std::atof(argv[3]));
    if (reason.wait_for(timeout) == std::future_status::timeout) llm.abort(request);
    std::printf("\n[%s]\n", reason.get().c_str());
  } catch (const graft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
