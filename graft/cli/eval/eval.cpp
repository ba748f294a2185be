// graft eval: measures accuracy on a file of questions, one JSON object per line with the keys
// task, messages, tools, answer and check (eval_checks.h).

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "graft/api/chat_format.h"
#include "graft/api/llm.h"
#include "graft/base/error.h"
#include "graft/base/progress.h"
#include "graft/cli/commands.h"
#include "graft/cli/eval/eval_checks.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/terminal.h"
#include "graft/cli/text_file.h"

namespace graft::cli {
namespace {

struct EvalOptions {
  ModelOptions model;
  std::string file;
  std::int64_t max_new_tokens = 300;
  std::string chat_template;  // empty: the model's
  std::string answers;        // output file; empty: none
  bool json = false;
};

struct Question {
  std::string task;
  std::string check;
  Json answer;
  std::vector<api::TokenId> prompt;
};

struct Tally {
  int right = 0;
  int all = 0;
};

std::vector<OrderedJson> read_lines(const std::string& path) {
  const std::string text = read_text_file(path);
  std::vector<OrderedJson> lines;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    lines.push_back(parse_ordered_json(line, str(path, ":", lines.size() + 1)));
  }
  if (lines.empty()) fail(path, ": has no questions");
  return lines;
}

Question read_question(const OrderedJson& line, const api::ChatFormat& format) {
  api::Conversation conversation;
  conversation.messages = line.at("messages");
  conversation.tools = line.value("tools", OrderedJson(nullptr));
  const api::ChatPrompt prompt = format.prompt(conversation);
  if (!prompt.images.empty()) fail("messages: images are not supported in questions");
  return {.task = line.value("task", std::string("all")),
          .check = line.at("check").get<std::string>(),
          .answer = Json::parse(line.at("answer").dump()),
          .prompt = prompt.tokens};
}

std::vector<Question> read_questions(const EvalOptions& options, const api::LLM& llm) {
  const api::ChatFormat format(llm, options.chat_template);
  if (!format.warning().empty()) warn(format.warning());
  std::vector<Question> questions;
  for (const OrderedJson& line : read_lines(options.file)) {
    const std::string where = str(options.file, ":", questions.size() + 1, ": ");
    try {
      questions.push_back(read_question(line, format));
    } catch (const Json::exception& error) {
      fail(where, error.what());
    } catch (const Error& error) {
      fail(where, error.what());
    }
  }
  return questions;
}

std::vector<std::string> ask(api::LLM& llm,
                             const std::vector<Question>& questions,
                             const EvalOptions& options) {
  // As many as max_num_seqs, so that all slots are used and progress is still shown.
  constexpr std::size_t kGroup = 64;
  api::SamplingParams params;
  params.temperature = 0;
  params.max_tokens = options.max_new_tokens;
  std::size_t num_tokens = 0;
  for (const Question& question : questions)
    num_tokens += question.prompt.size();
  std::vector<std::string> answers;
  Progress progress("eval", num_tokens, stderr, "tokens");
  for (std::size_t first = 0; first < questions.size(); first += kGroup) {
    std::vector<api::Prompt> prompts;
    std::size_t group_tokens = 0;
    for (std::size_t i = first; i < std::min(first + kGroup, questions.size()); ++i) {
      prompts.emplace_back(questions[i].prompt);
      group_tokens += questions[i].prompt.size();
    }
    for (const api::Output& output : llm.generate(prompts, params))
      answers.push_back(output.samples[0].text);
    progress.advance(group_tokens, "");
  }
  progress.finish();
  return answers;
}

void print(const std::map<std::string, Tally>& tasks, const Tally& total, bool json) {
  if (json) {
    Json out = {{"right", total.right}, {"all", total.all}};
    for (const auto& [task, tally] : tasks)
      out["tasks"][task] = {{"right", tally.right}, {"all", tally.all}};
    fmt::print("{}\n", out.dump(2));
    return;
  }
  for (const auto& [task, tally] : tasks) {
    fmt::print("  {:<16} {:>4} of {:<4} {:5.1f} %\n", task, tally.right, tally.all,
               100.0 * tally.right / tally.all);
  }
  fmt::print("{} of {} correct, {:.1f} %\n", total.right, total.all,
             100.0 * total.right / total.all);
}

void evaluate(const EvalOptions& options) {
  api::LlmConfig config = options.model.config();
  config.engine.max_num_seqs = 64;
  const auto loaded = options.model.open(config);
  api::LLM& llm = *loaded;
  const std::vector<Question> questions = read_questions(options, llm);
  const std::vector<std::string> answers = ask(llm, questions, options);
  std::map<std::string, Tally> tasks;
  Tally total;
  std::string log;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Question& question = questions[i];
    bool right = false;
    try {
      right = is_right(question.check, question.answer, answers[i]);
    } catch (const Error& error) {
      fail(options.file, ":", i + 1, ": ", error.what());
    }
    for (Tally* tally : {&tasks[question.task], &total}) {
      tally->right += right ? 1 : 0;
      ++tally->all;
    }
    // An answer cut off at max_tokens may end with an incomplete UTF-8 character.
    log += Json({{"task", question.task}, {"output", answers[i]}, {"right", right}})
               .dump(-1, ' ', false, Json::error_handler_t::replace) +
           '\n';
  }
  if (!options.answers.empty()) write_text_file(options.answers, log);
  print(tasks, total, options.json);
}

}  // namespace

void add_eval(Command& app) {
  auto options = std::make_shared<EvalOptions>();
  Command* command =
      app.add_subcommand("eval", "Measure a model's accuracy on a file of questions");
  command->add_option("FILE", options->file, "JSON lines: task, messages, tools, answer, check")
      ->required();
  command->footer("Example:\n  graft eval questions.jsonl -m model.gguf");
  options->model.add_to(*command);
  command
      ->add_option("--max-new-tokens", options->max_new_tokens,
                   "Max tokens of an answer (default: 300)")
      ->check(Range(1, 1 << 20));
  command->add_option("--chat-template", options->chat_template,
                      "Chat template file or built-in name, e.g. chatml (default: the model's)");
  command->add_option("--answers", options->answers,
                      "Write the answers to this file as JSON lines");
  command->add_flag("--json", options->json, "Print the results as JSON");
  command->callback([options] { evaluate(*options); });
}

}  // namespace graft::cli
