// graft run: answers one prompt or a file of prompts, for scripts. Standard output has only the
// answer.

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graft/api/chat_format.h"
#include "graft/base/error.h"
#include "graft/chat/reasoning.h"
#include "graft/cli/answer.h"
#include "graft/cli/commands.h"
#include "graft/cli/image_file.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/options/named_model.h"
#include "graft/cli/options/sampling_options.h"
#include "graft/cli/run/model_word.h"
#include "graft/cli/run/run_batch.h"
#include "graft/cli/terminal.h"
#include "graft/cli/text_file.h"
#include "graft/server/local/local_api.h"
#include "graft/server/models/model_pool.h"

namespace graft::cli {
namespace {

constexpr int kInterrupted = 130;  // 128 + SIGINT, as shells report it

struct RunCommandOptions {
  ModelOptions model;
  ContextOptions context;
  SamplingOptions sampling;
  std::vector<std::string> words;
  std::vector<std::string> images;
  std::string batch;
  std::string output;
  bool raw = false;
  bool json = false;
  bool stats = false;
};

std::string standard_input() {
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

// Joins the words, replacing "-" by standard input. Without words, reads standard input.
std::string read_prompt(const std::vector<std::string>& words) {
  if (words.empty()) {
    if (is_terminal(stdin))
      fail("run: no prompt: pass it as an argument or pipe it to standard input");
    return standard_input();
  }
  std::string prompt;
  for (const std::string& word : words)
    prompt += (prompt.empty() ? "" : "\n") + (word == "-" ? standard_input() : word);
  return prompt;
}

// Ollama's `run MODEL PROMPT`: the name of a model on this machine in first place chooses it.
void take_model(RunCommandOptions& options) {
  std::vector<std::string>& words = options.words;
  ModelChoice& model = options.model.model;
  if (words.empty() || model.is_given() || words[0].find(' ') != std::string::npos) return;
  const std::string first = words[0];
  if (names_remote_model(first) || names_local_model(first, model.catalog())) {
    words.erase(words.begin());
    if (words.empty() && is_terminal(stdin)) {
      fail("run: ", first, " is a model, and there is no prompt; `graft chat -m ", first,
           "` opens a conversation");
    }
    model.text = first;
  } else if (looks_like_model(first)) {
    const std::string name = download_name(first);
    if (words.size() > 1) {
      fail("run: ", first, ": no model of that name on this machine; -m ", name,
           " downloads and runs it; a prompt of several words goes in quotes");
    }
    warn(str("\"", first, "\" is taken as the prompt for the ",
             model.text.empty() ? "bundled model" : str("model ", model.text),
             "; to download and run a model of that name: -m ", name));
  }
}

struct SplitAnswer {
  std::string reasoning;
  std::string content;
};

void print_json(const SplitAnswer& answer, const AnswerStats& stats) {
  OrderedJson json = {{"text", answer.content},
                      {"reasoning", answer.reasoning},
                      {"finish_reason", to_string(stats.finish.reason)},
                      {"prompt_tokens", stats.num_prompt},
                      {"cached_tokens", stats.num_cached},
                      {"completion_tokens", stats.num_output},
                      {"prompt_seconds", stats.prompt_seconds},
                      {"completion_seconds", stats.output_seconds}};
  if (stats.num_draft_tokens > 0) {
    json["draft_tokens"] = stats.num_draft_tokens;
    json["accepted_tokens"] = stats.num_accepted_tokens;
  }
  fmt::print("{}\n", json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

// Prints the answer without reasoning; --json includes the reasoning.
int run_one(const RunCommandOptions& options,
            api::LLM& llm,
            const AnswerPrompt& prompt,
            const api::SamplingParams& params,
            chat::ReasoningSplitter splitter) {
  SplitAnswer answer;
  const auto add = [&](const chat::ResponseDelta& part) {
    answer.reasoning += part.reasoning;
    answer.content += part.content;
    if (options.json || part.content.empty()) return;
    const std::string shown = is_terminal(stdout) ? terminal_safe(part.content) : part.content;
    std::fwrite(shown.data(), 1, shown.size(), stdout);
    flush_output();
  };
  const AnswerStats stats = stream_answer(llm, prompt, params, [&](std::string_view text) {
    add(options.raw ? chat::ResponseDelta{.reasoning = "", .content = std::string(text)}
                    : splitter.feed(text));
  });
  if (!options.raw) add(splitter.finish());
  if (options.json) {
    print_json(answer, stats);
  } else if (!answer.content.ends_with('\n')) {
    fmt::print("\n");
  }
  if (options.stats) print_stats(stats, stderr);
  flush_output();
  return stats.interrupted ? kInterrupted : 0;
}

int run_prompt(RunCommandOptions& options) {
  take_model(options);
  // Read before loading the model, to report errors immediately.
  const std::string text = read_prompt(options.words);
  if (text.empty()) fail("run: the prompt is empty");
  std::vector<OrderedJson> images;
  for (const std::string& path : options.images)
    images.push_back(image_part(path));
  api::LlmConfig config = options.model.config();
  options.context.apply_to(config.engine);
  config.engine.max_num_seqs = 1;
  const auto llm = options.model.open(config);
  if (!images.empty()) check_takes_images(*llm, "--image");
  api::SamplingParams params = options.sampling.params(llm->source().config());
  if (options.raw) return run_one(options, *llm, {text}, params, chat::ReasoningSplitter());
  const api::ChatFormat format(*llm, options.sampling.chat_template);
  if (!format.warning().empty()) warn(format.warning());
  api::Conversation conversation;
  if (!options.sampling.system.empty())
    conversation.messages.push_back({{"role", "system"}, {"content", options.sampling.system}});
  conversation.messages.push_back(user_message(text, images));
  conversation.thinking = options.sampling.thinking();
  const api::ChatPrompt prompt = format.prompt(conversation);
  if (prompt.reasoning.is_harmony) params.skip_special_tokens = false;
  api::constrain_after_reasoning(prompt, params);
  return run_one(options, *llm, {prompt.tokens, prompt.images}, params,
                 chat::ReasoningSplitter(prompt.in_thinking, prompt.reasoning));
}

int run_batch_file(const RunCommandOptions& options) {
  // Read before loading the model, to report errors immediately.
  const std::string text = read_text_file(options.batch);
  if (!options.output.empty()) check_new_file(options.output);
  server::PoolConfig pool = {
      .models = {named_model(options.model.model.text, options.model.model.catalog())},
      .llm = options.model.config(),
      .chat_template = options.sampling.chat_template};
  options.context.apply_to(pool.llm.engine);
  LoadProgress progress(pool.llm);
  server::LocalApi api(std::move(pool));
  progress.finish();
  const api::LLM& llm = api.model().llm();
  if (llm.tokenizer() != nullptr && !api.model().format().warning().empty())
    warn(api.model().format().warning());
  std::vector<BatchLine> lines =
      parse_batch(text, options.batch,
                  {.params = options.sampling.params(llm.source().config()),
                   .thinking = options.sampling.thinking(),
                   .system = options.sampling.system,
                   .raw = options.raw,
                   .fields = options.sampling.request_fields()});
  return run_batch(api, std::move(lines), options.output);
}

}  // namespace

void add_run(Command& app) {
  auto options = std::make_shared<RunCommandOptions>();
  Command* command = app.add_subcommand("run", "Answer a prompt and exit, for scripts");
  command->footer(
      "Examples:\n"
      "  graft run \"What is 12 + 30?\"\n"
      "  graft run \"Sum this up:\" - < notes.txt\n"
      "  graft run -m llava --image photo.jpg \"What is this?\"\n"
      "  graft run --batch questions.jsonl > answers.jsonl");
  command->add_option("PROMPT", options->words, "Prompt text; - reads standard input");
  options->model.add_to(*command);
  options->context.add_to(*command);
  options->sampling.add_to(*command);
  options->sampling.add_structured_to(*command);
  Option* image = command
                      ->add_option("--image", options->images,
                                   "Image file before the prompt, for models with a vision tower; "
                                   "repeatable")
                      ->option_text("FILE")
                      ->allow_extra_args(false);
  command->add_flag("--raw", options->raw, "Continue the prompt without a chat template")
      ->excludes(image);
  Option* json = command->add_flag("--json", options->json,
                                   "Print one JSON object with text and token counts");
  command->add_flag("--stats", options->stats, "Print token counts and speeds on standard error");
  Option* batch =
      command
          ->add_option("--batch", options->batch,
                       "JSON lines file of requests, {\"prompt\": …} or {\"messages\": […]}, or "
                       "OpenAI's batch file; - reads standard input")
          ->option_text("FILE")
          ->excludes("PROMPT")
          ->excludes(image)
          ->excludes(json);
  command->add_option("-o,--output", options->output, "Write the answers of --batch to this file")
      ->option_text("FILE")
      ->needs(batch);
  command->callback([options] {
    exit_with(options->batch.empty() ? run_prompt(*options) : run_batch_file(*options));
  });
}

}  // namespace graft::cli
