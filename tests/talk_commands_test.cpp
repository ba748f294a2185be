// The commands run, chat, models, config and completion with the bundled model.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

TEST(RunCommand, PrintsOnlyTheOutput) {
  const Outcome outcome = run_quietly({"run", "What is 12 + 30?", "--temperature", "0"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "12 + 30 = 42\n");
  EXPECT_EQ(outcome.err, "");
}

TEST(RunCommand, ReadsThePromptFromAPipe) {
  EXPECT_EQ(run_quietly({"run", "--temperature", "0"}, "What is 12 + 30?").out, "12 + 30 = 42\n");
  EXPECT_EQ(run_quietly({"run", "What is", "-", "--temperature", "0"}, "12 + 30?").out,
            "12 + 30 = 42\n");
  const Outcome empty = run_quietly({"run"}, "");
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_EQ(empty.err, "graft: run: the prompt is empty\n");
}

TEST(RunCommand, PrintsJson) {
  const Outcome outcome = run_quietly({"run", "--json", "--temperature", "0", "--think=on",
                                       "--system", "Think step by step.", "What is 17 + 25?"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = parse_json(outcome.out, "run");
  EXPECT_EQ(json["finish_reason"], "stop");
  EXPECT_NE(json["text"].get<std::string>().find("42"), std::string::npos) << outcome.out;
  EXPECT_NE(json["reasoning"], "") << outcome.out;
  EXPECT_EQ(json["text"].get<std::string>().find("think>"), std::string::npos) << outcome.out;
}

TEST(RunCommand, AnswersMatchAGrammar) {
  const TempDir folder;
  std::ofstream(folder / "schema.json") << R"({"enum": [["a", 1]]})";
  std::ofstream(folder / "list.gbnf") << "root ::= \"x\"{3}\n";
  const auto run = [](const std::string& flag, const std::string& value) {
    return run_quietly({"run", flag, value, "--temperature", "0", "Hello"});
  };
  EXPECT_EQ(parse_json(run("--json-schema", folder / "schema.json").out, "run"), Json({"a", 1}));
  EXPECT_EQ(run("--grammar", folder / "list.gbnf").out, "xxx\n");
  EXPECT_EQ(run("--regex", "y(es)").out, "yes\n");
  const Outcome invalid = run("--regex", "(");
  EXPECT_EQ(invalid.exit_code, 2);
  EXPECT_NE(invalid.err.find("regex: at 0"), std::string::npos) << invalid.err;
}

TEST(RunCommand, ContinuesRawText) {
  const Outcome outcome =
      run_quietly({"run", "--raw", "--temperature", "0", "-n", "8", "Once upon a time"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_FALSE(outcome.out.empty());
}

TEST(RunCommand, IsReproducibleWithASeed) {
  const std::vector<std::string> words = {"run", "--seed", "7",  "--temperature",
                                          "1.5", "-n",     "24", "Tell me a story."};
  const Outcome first = run_quietly(words);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.out, run_quietly(words).out);
}

TEST(ManCommand, PagesAreMadeFromTheHelp) {
  const TempDir folder;
  EXPECT_EQ(run_quietly({"man", "--all", folder.path().string()}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "graft.1"));
  EXPECT_TRUE(std::filesystem::exists(folder / "graft-rules-check.1"));
  const Outcome page = run_quietly({"man", "run"});
  EXPECT_TRUE(page.out.starts_with(".TH graft-run 1 ")) << page.out;
  EXPECT_NE(page.out.find("\\-\\-batch FILE\n"), std::string::npos) << page.out;
  expect_user_error(run_quietly({"man", "dance"}), "no command 'dance'");
}

TEST(ChatCommand, ReadsAPipeAndKeepsTheConversation) {
  const TempDir folder;
  const std::string file = folder / "saved.json";
  const Outcome first =
      run_quietly({"chat", "--temperature", "0"},
                  "My name is Ann.\nWhat is my name?\n/stats\n/save " + file + "\n");
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.out.find("Ann"), std::string::npos) << first.out;
  EXPECT_EQ(first.out.find(" 0 of them cached"), std::string::npos) << first.out;
  const Outcome second =
      run_quietly({"chat", "--temperature", "0"}, "/load " + file + "\nWhat is my name?\n");
  EXPECT_NE(second.out.find("4 messages from"), std::string::npos) << second.out;
  EXPECT_NE(second.out.find("Ann", second.out.find("saved.json")), std::string::npos) << second.out;
}

// The number before " of them cached" in the statistics.
int num_cached_tokens(const std::string& out) {
  const std::size_t end = out.rfind(" of them cached");
  const std::size_t begin = end == std::string::npos ? end : out.rfind(' ', end - 1);
  return begin == std::string::npos ? -1 : std::stoi(out.substr(begin + 1));
}

TEST(ChatCommand, ResumesWithTheKvCache) {
  const TempDir folder;
  const std::string file = folder / "saved.json";
  const std::string question = "Tell me a story about a fox.\n";
  const Outcome whole = run_quietly({"chat", "--temperature", "0"}, question + "Another one.\n");
  const Outcome first = run_quietly({"chat", "--temperature", "0", "--save", file}, question);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  // The file has the blocks, not only the tokens to compute them from.
  EXPECT_GT(std::filesystem::file_size(file + ".kv"), 100000U);
  const Outcome second =
      run_quietly({"chat", "--temperature", "0", "--resume", file}, "Another one.\n");
  EXPECT_EQ(second.err, "");
  EXPECT_EQ(first.out + second.out, whole.out);
  const Outcome stats =
      run_quietly({"chat", "--temperature", "0", "--resume", file, "--stats"}, "Another one.\n");
  EXPECT_GT(num_cached_tokens(stats.out), 32) << stats.out;

  std::fstream(file + ".kv", std::ios::in | std::ios::out).seekp(1000) << "damaged";
  const Outcome damaged =
      run_quietly({"chat", "--temperature", "0", "--resume", file, "--stats"}, "Another one.\n");
  EXPECT_EQ(damaged.exit_code, 0);
  EXPECT_NE(damaged.err.find("saved.json.kv: "), std::string::npos) << damaged.err;
  EXPECT_EQ(num_cached_tokens(damaged.out), 0) << damaged.out;
  EXPECT_EQ(damaged.out.substr(0, second.out.size()), second.out);

  std::ofstream(file + ".kv") << "a foreign file";
  EXPECT_NE(run_quietly({"chat", "--resume", file}, "").err.find("not a saved sequence"),
            std::string::npos);
}

TEST(ChatCommand, RetryAnswersAgainAndFullContextMayStop) {
  const Outcome again =
      run_quietly({"chat", "--temperature", "0"}, "What is 12 + 30?\n/retry\n/tokens\n");
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.out.find("12 + 30 = 42\n12 + 30 = 42\n"), std::string::npos) << again.out;
  EXPECT_NE(again.out.find(", 2 messages, 0 of them left out"), std::string::npos) << again.out;
  EXPECT_NE(run_quietly({"chat"}, "/retry\n").err.find("no answer"), std::string::npos);
  std::string questions;
  for (int i = 0; i < 6; ++i)
    questions += "What is 12 + 30?\n";
  const Outcome full = run_quietly(
      {"chat", "--temperature", "0", "--max-model-len", "128", "--full-context", "stop"},
      questions);
  EXPECT_EQ(full.exit_code, 2);
  EXPECT_NE(full.err.find("the context of 128 tokens is full"), std::string::npos) << full.err;
  EXPECT_NE(full.err.find("/reset"), std::string::npos) << full.err;
  EXPECT_EQ(run_quietly({"chat", "--save", "/none/x"}, "").exit_code, 2);
}

TEST(ChatCommand, ShowsCallsOfToolsAndAsksForResults) {
  const TempDir folder;
  const std::string tools = folder / "tools.json";
  std::ofstream(tools) << R"([{"type": "function", "function": {"name": "buy_item",
    "description": "Buy an item in the shop", "parameters": {"type": "object", "properties": {
    "item": {"type": "string", "description": "The item to buy"},
    "quantity": {"type": "integer", "description": "How many to buy"}},
    "required": ["item", "quantity"]}}}])";
  const std::string file = folder / "saved.json";
  const std::vector<std::string> words = {
      "chat", "--temperature", "0", "--tools", tools, "--system", "Use the tools when they help."};
  const Outcome chat =
      run_quietly(words, "Please order 3 units of thimble.\n/save " + file + "\n{\"price\": 18}\n");
  EXPECT_EQ(chat.exit_code, 0) << chat.err;
  EXPECT_NE(chat.out.find("buy_item {\"item\": \"thimble\", \"quantity\": 3}\n"), std::string::npos)
      << chat.out;
  EXPECT_NE(chat.out.find("I bought 3 of the item thimble for 18 coins."), std::string::npos)
      << chat.out;
  EXPECT_EQ(chat.out.find("<tool_call>"), std::string::npos) << chat.out;
  // The call is still open in the file.
  const Outcome resumed = run_quietly(words, "/load " + file + "\n{\"price\": 18}\n");
  EXPECT_NE(resumed.out.find("for 18 coins."), std::string::npos) << resumed.out << resumed.err;
  std::ofstream(tools) << R"([{"type": "web_search"}])";
  expect_user_error(run_quietly(words, ""), "tools[0].type: 'web_search' is not supported");
}

TEST(ChatCommand, AcceptsKtransformersFlags) {
  // A name, and a folder with a tokenizer of its own.
  for (const char* path : {"org/name", GRAFT_SOURCE_DIR "/tests/sprout"}) {
    const Outcome outcome =
        run_quietly({"chat", "--model_path", path, "--gguf_path", GRAFT_SOURCE_DIR "/models/sprout",
                     "--cpu_infer", "2", "--max_new_tokens", "12", "--use_cuda_graph", "False",
                     "--mode", "normal"},
                    "/set temperature=0\nWhat is 12 + 30?\n");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("12 + 30 = 42"), std::string::npos) << outcome.out;
  }
  expect_user_error(run_quietly({"run", "--tokenizer", GRAFT_SOURCE_DIR "/docs", "hi"}), "docs");
}

TEST(ChatCommand, RejectsUnknownCommandsAndInvalidValues) {
  const Outcome command = run_quietly({"chat"}, "/dance\n");
  EXPECT_EQ(command.exit_code, 2);
  EXPECT_NE(command.err.find("unknown command /dance; see /help"), std::string::npos);
  EXPECT_NE(run_quietly({"chat"}, "/set temperature=hot\n").err.find("\"hot\" is not a number"),
            std::string::npos);
  EXPECT_NE(run_quietly({"chat"}, "/load /etc/hostname\n").err.find("/etc/hostname"),
            std::string::npos);
}

TEST(ModelsCommand, ListsTheBundledModel) {
  const Outcome outcome = run_quietly({"models", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json models = parse_json(outcome.out, "models");
  ASSERT_FALSE(models.empty());
  EXPECT_EQ(models[0]["name"], "sprout");
  EXPECT_EQ(models[0]["bundled"], true);
  EXPECT_LE(models[0]["bytes"].get<double>(), 40e6);
  EXPECT_TRUE(models[0]["problem"].is_null());
}

TEST(ModelsCommand, FindsModelsInTheConfiguredFolders) {
  const TempDir folder;
  std::filesystem::create_directories(folder.path() / "models");
  std::filesystem::create_symlink(GRAFT_SOURCE_DIR "/models/sprout/sprout-Q6_K.gguf",
                                  folder.path() / "models/tiny.gguf");
  std::ofstream(folder / "models/broken.gguf") << "GGUF";
  std::ofstream(folder / "graft.yaml") << "model-dir: " << folder / "models"
                                       << "\n";
  const RunOptions around = {.environment = {"GRAFT_CONFIG=" + (folder / "graft.yaml").string()}};
  const Json models = parse_json(run_program({"models", "--json"}, around).out, "models");
  ASSERT_EQ(models.size(), 3U);
  EXPECT_EQ(models[1]["name"], "broken");
  EXPECT_TRUE(models[1]["problem"].is_string());
  EXPECT_EQ(models[2]["name"], "tiny");
  EXPECT_EQ(run_program({"inspect", "TINY"}, around).exit_code, 0);
  const Outcome unknown = run_program({"run", "-m", "unknown", "hi"}, around);
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.err,
            "graft: unknown: no such file or folder, and no model of that name (available: sprout, "
            "broken, tiny); -m ollama:unknown and -m ORG/REPO download models\n");
}

TEST(ConfigCommand, PrintsEffectiveSettingsAndTheirOrigin) {
  const TempDir folder;
  const std::string file = folder / "graft.yaml";
  std::ofstream(file) << "threads: 3\ntemperature: 0.1\n";
  const Outcome outcome = run_program(
      {"config", "--json"}, {.environment = {"GRAFT_CONFIG=" + file, "GRAFT_TEMPERATURE=0.9"}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json settings = parse_json(outcome.out, "config")["settings"];
  EXPECT_EQ(settings["threads"]["value"], "3");
  EXPECT_EQ(settings["threads"]["origin"], file + ":1");
  EXPECT_EQ(settings["temperature"]["value"], "0.9");
  EXPECT_EQ(settings["temperature"]["origin"], "GRAFT_TEMPERATURE");
  EXPECT_EQ(settings["rules"]["origin"], "default");
  std::ofstream(file) << "colour: red\n";
  const Outcome broken = run_program({"run", "hi"}, {.environment = {"GRAFT_CONFIG=" + file}});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_NE(broken.err.find(":1: unknown setting \"colour\""), std::string::npos) << broken.err;
}

// Runs the bash script in bash; the others are checked as text.
TEST(CompletionCommand, CompletesCommandsAndFlags) {
  const TempDir folder;
  std::ofstream(folder / "graft.bash") << run_quietly({"completion", "bash"}).out;
  const Outcome flags = run_command(
      {"/bin/bash", "-c",
       "source " + (folder / "graft.bash").string() +
           "; COMP_WORDS=(graft chat --temp); COMP_CWORD=2; _graft; echo ${COMPREPLY[@]}"
           "; COMP_WORDS=(graft rules ch); COMP_CWORD=2; _graft; echo ${COMPREPLY[@]}"
           "; COMP_WORDS=(graft comp); COMP_CWORD=1; _graft; echo ${COMPREPLY[@]}"});
  EXPECT_EQ(flags.out, "--temperature\ncheck\ncompletion\n") << flags.err;
  const Outcome models = run_command(
      {"/bin/bash", "-c",
       "graft() { " GRAFT_PROGRAM " \"$@\"; }; source " + (folder / "graft.bash").string() +
           "; COMP_WORDS=(graft chat -m spr); COMP_CWORD=3; _graft; echo ${COMPREPLY[@]}"});
  EXPECT_EQ(models.out, "sprout\n") << models.err;
  EXPECT_NE(run_quietly({"completion", "zsh"}).out.find("'--temperature:"), std::string::npos);
  EXPECT_NE(run_quietly({"completion", "fish"}).out.find("-l 'temperature' -r"), std::string::npos);
  EXPECT_EQ(run_quietly({"completion", "tcsh"}).exit_code, 2);
}

struct BadCase {
  const char* name;
  std::vector<std::string> arguments;
  std::string message;  // somewhere in the line
};

TEST(BadInput, PrintsOneLineAndExitsWithCode2) {
  const TempDir folder;
  std::filesystem::create_directories(folder.path() / "empty");
  const std::string cut = folder / "cut.gguf";
  std::filesystem::copy_file(GRAFT_SOURCE_DIR "/models/sprout/sprout-Q6_K.gguf", cut);
  std::filesystem::resize_file(cut, 20'000'000);
  const BadCase cases[] = {
      {"missing file", {"run", "-m", folder / "none.gguf", "hi"}, "no such file or folder"},
      {"no model", {"run", "-m", folder / "empty", "hi"}, "no model in this folder"},
      {"truncated", {"run", "-m", cut, "hi"}, "cut.gguf: "},
      {"memory", {"run", "--memory", "1M", "hi"}, "its weights take 37.4 MiB, but only 1.0 MiB"},
      {"context", {"run", "--max-model-len", "4", "What is 12 + 30?"}, "21 tokens"},
      {"rules", {"run", "--rules", folder / "none.yaml", "hi"}, "none.yaml: "},
      {"template", {"run", "--chat-template", "unknown", "hi"}, "unknown"},
      {"batch", {"run", "--batch", folder / "none.jsonl"}, "none.jsonl: "},
      {"size", {"run", "--memory", "many", "hi"}, "not a size like 24G"},
      {"prompt file", {"chat", "--prompt-file", folder / "none.txt"}, "none.txt: "},
  };
  for (const BadCase& bad : cases) {
    const Outcome outcome = run_quietly(bad.arguments);
    EXPECT_EQ(outcome.exit_code, 2) << bad.name << outcome.err;
    EXPECT_EQ(outcome.out, "") << bad.name;
    EXPECT_NE(outcome.err.find(bad.message), std::string::npos) << bad.name << ": " << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("graft: ")) << outcome.err;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << bad.name << ": " << outcome.err;
  }
  const Outcome flag = run_quietly({"run", "--colour", "red"});
  EXPECT_EQ(flag.exit_code, 2);
  EXPECT_NE(flag.err.find("--colour"), std::string::npos) << flag.err;
}

}  // namespace
}  // namespace graft::tests
