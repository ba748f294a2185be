// What users get wrong, or their machines: files that are no models, lost output, missing
// variables, unusual names. Every command answers with one line, or works.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"
#include "graft/testing/golden.h"
#include "graft/testing/shared_data.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

namespace fs = std::filesystem;

// A safetensors file with these tensors of one F32 value.
void write_safetensors(const fs::path& path, const std::vector<std::string>& names) {
  Json header = Json::object();
  std::size_t offset = 0;
  for (const std::string& name : names) {
    header[name] = {{"dtype", "F32"}, {"shape", {1, 1}}, {"data_offsets", {offset, offset + 4}}};
    offset += 4;
  }
  const std::string text = header.dump();
  std::uint64_t size = text.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof(size));
  out << text << std::string(offset, '\0');
}

TEST(CommandFailures, LoraAdaptersAreNoModelsInAnyCommand) {
  const TempDir folder;
  const std::string file = folder / "adapter_model.safetensors";
  const std::string start = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  write_safetensors(file, {start + "A.weight", start + "B.weight"});
  std::ofstream(folder / "adapter_config.json") << "{}";
  std::ofstream(folder / "text.txt") << "Some words.\n";
  const std::vector<std::vector<std::string>> commands = {
      {"run", "-m", file, "hi"},
      {"chat", "-m", file},
      {"bench", "-m", file},
      {"perplexity", folder / "text.txt", "-m", file},
      {"verify", file},
      {"inspect", file},
      {"plan", file},
      {"rules", "check", GRAFT_SOURCE_DIR "/rules/cpu.yaml", "-m", file},
      {"convert", file, folder / "out.gguf"}};
  for (const std::vector<std::string>& command : commands)
    expect_user_error(run_quietly(command), "a LoRA adapter");
  // A server stays up, not ready, and tells the reason.
  const Outcome served = run_command({"/usr/bin/timeout", "--signal=TERM", "5", GRAFT_PROGRAM,
                                      "serve", "--port", "0", "-m", file});
  EXPECT_NE(served.err.find("cannot load adapter_model"), std::string::npos) << served.err;
  EXPECT_NE(served.err.find("a LoRA adapter"), std::string::npos) << served.err;
  EXPECT_EQ(served.exit_code, 124) << "timeout has ended it";
  // Weights without a config.json are named as such.
  fs::create_directories(folder / "other");
  const std::string weights = folder / "other/weights.safetensors";
  write_safetensors(weights, {"model.embed_tokens.weight"});
  for (const char* command : {"inspect", "plan"})
    expect_user_error(run_quietly({command, weights}), "config.json");
  expect_user_error(run_quietly({"run", "-m", weights, "hi"}), "config.json");
}

TEST(CommandFailures, LostOutputIsAnErrorOfEveryCommand) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  const TempDir folder;
  std::ofstream(folder / "text.txt") << "The fox ran over the hill and over the hill again.\n";
  std::ofstream(folder / "chat.json") << R"([{"role": "user", "content": "Hello"}])";
  std::ofstream(folder / "eval.jsonl")
      << R"({"messages": [{"role": "user", "content": "1 + 2?"}], "answer": "3", "check": "num"})"
      << "\n";
  std::ofstream(folder / "batch.jsonl") << R"({"prompt": "Hi", "max_tokens": 2})"
                                        << "\n";
  const std::string dir = folder.path().string();
  const std::vector<std::string> commands = {"tokenize < " + dir + "/text.txt",
                                             "tokenize --pieces < " + dir + "/text.txt",
                                             "detokenize <<< 40",
                                             "template --messages " + dir + "/chat.json",
                                             "eval " + dir + "/eval.jsonl",
                                             "inspect",
                                             "plan",
                                             "doctor --json",
                                             "config --json",
                                             "bench -p 8 -n 2 -r 1",
                                             "perplexity " + dir + "/text.txt --window 4",
                                             "rules check " GRAFT_SOURCE_DIR
                                             "/rules/cpu.yaml -m sprout",
                                             "run -n 2 Hello",
                                             "run --json -n 2 Hello",
                                             "run --batch " + dir + "/batch.jsonl",
                                             "cache ls",
                                             "completion bash",
                                             "man run",
                                             "models --json"};
  for (const std::string& command : commands) {
    const Outcome outcome = run_command(
        {"/bin/bash", "-c", "GRAFT_CONFIG=/dev/null " GRAFT_PROGRAM " " + command + " >/dev/full"});
    EXPECT_EQ(outcome.exit_code, 2) << command << "\n" << outcome.err;
    EXPECT_NE(outcome.err.find("graft: standard output: cannot write: No space left on device\n"),
              std::string::npos)
        << command << "\n"
        << outcome.err;
  }
}

std::set<std::string> entries_of(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

TEST(CommandFailures, WithoutHomeNothingIsWrittenToTheRoot) {
  const std::set<std::string> before = entries_of("/");
  const std::string program = "/usr/bin/env -i PATH=/usr/bin:/bin " GRAFT_PROGRAM " ";
  for (const std::string command :
       {"run -n 2 Hello", "chat -n 2 <<< Hello", "models", "config", "doctor", "plan"}) {
    const Outcome outcome = run_command({"/bin/bash", "-c", "cd /; " + program + command});
    EXPECT_EQ(outcome.exit_code, 0) << command << "\n" << outcome.err;
  }
  for (const char* command :
       {"machine", "pull org/repo", "run -m org/repo hi", "serve --port 0 --kv-disk 1G"}) {
    const Outcome outcome = run_command(
        {"/bin/bash", "-c", "cd /; HF_HUB_OFFLINE=1; export HF_HUB_OFFLINE; " + program + command});
    expect_user_error(outcome, "HOME");
  }
  EXPECT_EQ(entries_of("/"), before);
}

TEST(CommandFailures, PenaltiesAreFlags) {
  const auto run = [](const std::string& flag, const std::string& value) {
    return run_quietly({"run", "--temperature", "0", "-n", "100", flag, value, "Tell me a story."});
  };
  const std::string plain = run("--repetition-penalty", "1").out;
  EXPECT_NE(run("--repetition-penalty", "2").out, plain);
  EXPECT_NE(run("--frequency-penalty", "2").out, plain);
  EXPECT_EQ(run("--presence-penalty", "0").out, plain);
  EXPECT_EQ(run("--presence-penalty", "3").exit_code, 2);
  EXPECT_EQ(run("--repetition-penalty", "0").exit_code, 2);
}

TEST(CommandFailures, SettingsOfFilesAndVariables) {
  const TempDir folder;
  expect_user_error(
      run_program({"models"}, {.environment = {"GRAFT_CONFIG=" + (folder / "none.yaml").string()}}),
      "none.yaml: no such file");
  // Several folders, in which two models have one name, and a file with its suffix as the name.
  for (const char* name : {"a", "b"}) {
    fs::create_directories(folder / name);
    fs::create_symlink(bundled_sprout(), folder / name / "Tiny.gguf");
  }
  fs::create_symlink(bundled_sprout(), folder / "b/Other.gguf");
  const std::vector<std::string> folders = {"GRAFT_MODEL_DIR=" + (folder / "a").string() + ":" +
                                            (folder / "b").string()};
  const Json models = parse_json(run_quietly({"models", "--json"}, "", folders).out, "models");
  std::vector<std::string> paths;
  for (const Json& model : models)
    paths.push_back(model["path"]);
  for (const char* path : {"a/Tiny.gguf", "b/Tiny.gguf", "b/Other.gguf"})
    EXPECT_EQ(std::ranges::count(paths, (folder / path).string()), 1) << models.dump(2);
  EXPECT_EQ(run_quietly({"inspect", "-m", "Other.gguf"}, "", folders).exit_code, 0);
  EXPECT_EQ(run_quietly({"inspect", "-m", "other"}, "", folders).exit_code, 0);
  const Json settings =
      parse_json(run_quietly({"config", "--json"}, "",
                             {"GRAFT_DEVICE=cpu", "GRAFT_HOST=0.0.0.0", "GRAFT_PORT=8123"})
                     .out,
                 "config")["settings"];
  EXPECT_EQ(settings["device"]["value"], "cpu");
  EXPECT_EQ(settings["host"]["value"], "0.0.0.0");
  EXPECT_EQ(settings["port"]["value"], "8123");
}

TEST(CommandFailures, FifosAreRefusedInsteadOfWaitedFor) {
  const TempDir folder;
  const std::string pipe = folder / "pipe.gguf";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"run", "-m", pipe, "hi"}, {"inspect", pipe}})
    expect_user_error(run_quietly(command), "pipe.gguf");
}

TEST(CommandFailures, CountsHaveTheRightNumberOfTheWord) {
  const TempDir folder;
  const std::string model = folder / "one.gguf";
  const Outcome made =
      run_quietly({"synth", "qwen3-0.6b", model, "--layers", "1", "--type", "Q8_0"});
  EXPECT_NE(made.out.find(" with 1 layer,"), std::string::npos) << made.out << made.err;
  for (const std::string& text :
       {made.out, run_quietly({"inspect", model}).out, run_quietly({"plan", model}).out})
    EXPECT_EQ(text.find("1 layers"), std::string::npos) << text;
}

TEST(CommandFailures, StandardInputIsAFileOfEveryCommandThatReadsOne) {
  std::string text;
  for (int i = 0; i < 20; ++i)
    text += "The fox ran over the hill. ";
  const Outcome measured = run_quietly({"perplexity", "-", "--window", "32", "--json"}, text);
  EXPECT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_GT(parse_json(measured.out, "perplexity")["windows"], 1);
  const Outcome rendered = run_quietly({"template", "sprout", "--messages", "-"},
                                       R"([{"role": "user", "content": "Hello"}])");
  EXPECT_NE(rendered.out.find("Hello"), std::string::npos) << rendered.err;
}

TEST(CommandFailures, PerplexityFitsItsWindowIntoShortContexts) {
  const TempDir folder;
  for (const fs::directory_entry& entry : fs::directory_iterator(sprout_checkpoint())) {
    if (entry.path().filename() != "config.json")
      fs::create_symlink(entry.path(), folder.path() / entry.path().filename());
  }
  Json config = read_json_file(sprout_checkpoint() / "config.json");
  config["max_position_embeddings"] = 64;
  std::ofstream(folder / "config.json") << config;
  std::string text;
  for (int i = 0; i < 40; ++i)
    text += "The fox ran over the hill. ";
  const Outcome measured =
      run_quietly({"perplexity", "-", "-m", folder.path().string(), "--json"}, text);
  EXPECT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_GT(parse_json(measured.out, "perplexity")["windows"], 1);
}

TEST(CommandFailures, NamesOfModelsInFirstPlaceAreExplained) {
  expect_user_error(run_quietly({"run", "llama3.2", "Why?"}), "-m ollama:llama3.2 downloads");
  expect_user_error(run_quietly({"run", "org/repo", "Why?"}), "-m org/repo downloads");
  for (const char* word : {"mistral", "org/repo"}) {
    const Outcome outcome = run_quietly({"run", "-n", "2", word});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("is taken as the prompt for the bundled model"), std::string::npos)
        << outcome.err;
  }
  expect_user_error(run_quietly({"run", "ollama:llama3.2", "Why?"}, "", {"HF_HUB_OFFLINE=1"}),
                    "HF_HUB_OFFLINE");
  expect_user_error(run_quietly({"chat", "-m", "llama3.2"}), "-m ollama:llama3.2");
  expect_user_error(run_quietly({"chat", "llama3.2"}), "-m ollama:llama3.2");
  const Outcome chat = run_quietly({"chat", "sprout", "--temperature", "0"}, "What is 12 + 30?\n");
  EXPECT_NE(chat.out.find("42"), std::string::npos) << chat.err;
}

TEST(CommandFailures, ResultsAreJsonForPrograms) {
  const TempDir folder;
  const std::string model = folder / "one.gguf";
  const Json made = parse_json(
      run_quietly({"synth", "qwen3-0.6b", model, "--layers", "1", "--json"}).out, "synth");
  EXPECT_EQ(made["layers"], 1);
  EXPECT_EQ(made["bytes"], fs::file_size(model));
  const std::string dir = folder / "kv";
  fs::create_directories(dir);
  for (const char* command : {"ls", "clear", "verify"}) {
    const Outcome outcome = run_quietly({"cache", command, "--kv-dir", dir, "--json"});
    EXPECT_EQ(parse_json(outcome.out, command)["dir"], dir) << outcome.err;
  }
  const Json ids = parse_json(run_quietly({"tokenize", "--json", "--no-special"}, "Hello").out, "");
  std::string words;
  for (const Json& id : ids)
    words += std::to_string(id.get<int>()) + " ";
  EXPECT_EQ(parse_json(run_quietly({"detokenize", "--json"}, words).out, ""), "Hello");
  const Outcome rendered = run_quietly({"template", "sprout", "--json", "--messages", "-"},
                                       R"([{"role": "user", "content": "Hello"}])");
  EXPECT_EQ(parse_json(rendered.out, "")["prompt"],
            run_quietly({"template", "sprout", "--messages", "-"},
                        R"([{"role": "user", "content": "Hello"}])")
                .out);
}

}  // namespace
}  // namespace graft::tests
