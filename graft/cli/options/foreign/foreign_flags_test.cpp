#include "graft/cli/options/foreign/foreign_flags.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>
#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/cli/command.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/foreign/flag_row.h"

namespace graft::cli {
namespace {

using Words = std::vector<std::string>;

std::string refusal(const Words& arguments) {
  try {
    translate_flags(arguments);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ForeignFlags, OfKTransformersChat) {
  EXPECT_EQ(translate_flags({"chat", "--model_path", "org/name", "--gguf_path", "/m/gguf",
                             "--optimize_config_path", "r.yaml", "--cpu_infer", "33",
                             "--max_new_tokens=1000", "--chunk_size", "512", "--prompt_file",
                             "p.txt", "--mode", "normal"}),
            (Words{"chat", "--rules", "r.yaml", "--threads", "33", "--max-new-tokens=1000",
                   "--chunk-prefill", "512", "--prompt-file", "p.txt", "--model", "/m/gguf"}));
  EXPECT_EQ(translate_flags({"chat", "--model_path", "/m"}), (Words{"chat", "--model", "/m"}));
}

TEST(ForeignFlags, OfKTransformersServer) {
  EXPECT_EQ(translate_flags({"serve", "--gguf-path", "/m", "--cache_lens", "32768",
                             "--max-batch-size", "4", "--chunk_size", "256", "--backend_type",
                             "balance_serve", "--model_name", "v3"}),
            (Words{"serve", "--kv-blocks", "2048", "--max-num-seqs", "4",
                   "--max-num-batched-tokens", "256", "--model", "v3=/m"}));
  EXPECT_EQ(refusal({"serve", "--mode", "nonsense"}),
            "--mode: graft supports only normal, got \"nonsense\"");
  EXPECT_EQ(refusal({"chat", "--mode", "long_context"})
                .find("--mode long_context: graft has no sparse attention"),
            0U);
  EXPECT_EQ(refusal({"serve", "--backend_type", "exllamav2"}),
            "--backend-type: graft supports only ktransformers balance_serve, got \"exllamav2\"");
  EXPECT_NE(refusal({"serve", "--force_think"}).find("requests decide"), std::string::npos);
}

TEST(ForeignFlags, CacheTypesOfLlamaCpp) {
  EXPECT_EQ(translate_flags({"serve", "-ctk", "q8_0", "-ctv", "Q8_0"}),
            (Words{"serve", "--kv-cache-dtype", "q8_0"}));
  EXPECT_EQ(translate_flags({"run", "--cache-type-k=f16"}),
            (Words{"run", "--kv-cache-dtype", "f16"}));
  EXPECT_EQ(refusal({"chat", "--cache-type-k", "q8_0", "--cache-type-v", "q4_0"}),
            "--cache-type-k q8_0, --cache-type-v q4_0: graft stores keys and values in one type; "
            "pass both, or --kv-cache-dtype");
  EXPECT_EQ(refusal({"chat", "-ctk", "q8_0"}),
            "--cache-type-k q8_0, --cache-type-v f16: graft stores keys and values in one type; "
            "pass both, or --kv-cache-dtype");
}

TEST(ForeignFlags, ModelPathBringsItsTokenizerAndTemplate) {
  const TempDir folder;
  std::ofstream(folder / "chat_template.jinja") << "{{ messages }}";
  EXPECT_EQ(
      translate_flags({"chat", "--gguf_path", "/m.gguf", "--model_path", folder.path().string()}),
      (Words{"chat", "--chat-template", folder / "chat_template.jinja", "--model", "/m.gguf"}));
  std::ofstream(folder / "tokenizer.json") << "{}";
  EXPECT_EQ(
      translate_flags({"chat", "--gguf_path", "/m.gguf", "--model_path", folder.path().string()}),
      (Words{"chat", "--tokenizer", folder.path().string(), "--model", "/m.gguf"}));
  const TempDir older;  // with the template in tokenizer_config.json
  const Words words = {"chat", "--gguf_path", "/m.gguf", "--model_path", older.path().string()};
  const std::string config = older / "tokenizer_config.json";
  std::ofstream(config) << "{}";
  EXPECT_EQ(translate_flags(words), (Words{"chat", "--model", "/m.gguf"}));
  std::ofstream(config) << R"({"chat_template": "x"})";
  EXPECT_EQ(translate_flags(words),
            (Words{"chat", "--chat-template", config, "--model", "/m.gguf"}));
}

TEST(ForeignFlags, BooleansMayOmitTheValue) {
  EXPECT_EQ(translate_flags({"chat", "--force_think", "--use_cuda_graph"}),
            (Words{"chat", "--think=on"}));
  EXPECT_EQ(translate_flags({"run", "--force_think", "True", "--use_cuda_graph", "False"}),
            (Words{"run", "--think=on", "--enforce-eager"}));
  EXPECT_EQ(translate_flags({"chat", "--force_think=false"}), Words{"chat"});
  EXPECT_THROW(translate_flags({"chat", "--use_cuda_graph", "perhaps"}), Error);
  EXPECT_THROW(translate_flags({"chat", "--cpu_infer"}), Error);
  EXPECT_EQ(translate_flags({"run", "-fa", "the prompt"}), (Words{"run", "the prompt"}));
}

TEST(ForeignFlags, OfLlamaCpp) {
  EXPECT_EQ(translate_flags({"serve", "-m", "a.gguf", "-c", "8192", "-np", "4", "-fa", "on", "-ngl",
                             "99", "--alias", "small", "--cache-ram", "4096", "--jinja"}),
            (Words{"serve", "-m", "small=a.gguf", "--max-model-len", "8192", "--max-num-seqs", "4",
                   "--kv-host", "4096M"}));
  EXPECT_EQ(translate_flags({"run", "-ngl", "0", "-hf", "org/repo:Q4_K_M", "hi"}),
            (Words{"run", "--device", "cpu", "hi", "--model", "org/repo:Q4_K_M"}));
  EXPECT_NE(refusal({"run", "-ngl", "20"}).find("--rules"), std::string::npos);
  EXPECT_NE(refusal({"serve", "-ot", "exps=CPU"}).find("--rules"), std::string::npos);
  EXPECT_EQ(refusal({"serve", "-fa", "off"}), "-fa: graft supports only true, got \"off\"");
}

TEST(ForeignFlags, OfVllm) {
  EXPECT_EQ(translate_flags({"serve", "--model", "m", "--tensor-parallel-size", "1",
                             "--served-model-name", "n", "--max-model-len", "4096",
                             "--enable-prefix-caching", "--swap-space", "8"}),
            (Words{"serve", "--model", "n=m", "--max-model-len", "4096", "--kv-host", "8G"}));
  EXPECT_EQ(refusal({"serve", "--tensor-parallel-size", "2"}),
            "--tensor-parallel-size: graft supports only 1, got \"2\"");
  EXPECT_NE(refusal({"serve", "--api-key", "k"}).find("--api-key-file"), std::string::npos);
  EXPECT_NE(refusal({"serve", "-m", "a", "-m", "b", "--served-model-name", "n"}), "");
}

TEST(ForeignFlags, MoreOfVllm) {
  EXPECT_EQ(translate_flags({"serve", "org/repo", "--served-model-name", "n", "--max-model-len",
                             "32k", "--max-num-batched-tokens=8K", "--kv-cache-dtype", "fp8_e4m3",
                             "--allowed-origins", R"(["https://a.example", "https://b.example"])",
                             "--disable-log-requests", "-dp", "1"}),
            (Words{"serve", "--model", "n=org/repo", "--max-model-len", "32000",
                   "--max-num-batched-tokens", "8192", "--kv-cache-dtype", "fp8", "--cors-origin",
                   "https://a.example", "--cors-origin", "https://b.example"}));
  EXPECT_EQ(translate_flags({"serve", "--allowed-origins", "https://a.example"}),
            (Words{"serve", "--cors-origin", "https://a.example"}));
  EXPECT_EQ(translate_flags({"serve", "--max-model-len", "auto"}), Words{"serve"});
  EXPECT_EQ(translate_flags({"serve", "--max-model-len", "-1"}), Words{"serve"});
  EXPECT_NE(refusal({"serve", "-O3"}).find("kernels"), std::string::npos);
  EXPECT_NE(refusal({"serve", "-q", "awq"}).find("graft quantize"), std::string::npos);
  EXPECT_EQ(translate_flags({"serve", "--speculative-config",
                             R"({"method": "ngram", "num_speculative_tokens": 4,
                                 "prompt_lookup_max": 5, "prompt_lookup_min": 2})"}),
            (Words{"serve", "--speculate", "ngram:2,4"}));
  for (const char* config : {"{}", R"({"method": "mtp"})", R"({"model": "small"})"}) {
    EXPECT_NE(refusal({"serve", "--speculative-config", config}).find("speculative decoding"),
              std::string::npos);
  }
  EXPECT_NE(refusal({"serve", "--speculative-config", "ngram"}).find("JSON"), std::string::npos);
  EXPECT_NE(refusal({"serve", "--no-enable-prefix-caching"}).find("always on"), std::string::npos);
}

TEST(ForeignFlags, MoreOfLlamaCpp) {
  EXPECT_EQ(translate_flags({"run", "-dev", "none", "-p", "Why?", "-no-cnv", "-s", "-1", "--perf"}),
            (Words{"run", "--device", "cpu", "Why?", "--raw", "--seed", "-1", "--stats"}));
  EXPECT_EQ(translate_flags({"chat", "-f", "notes.txt", "-dev", "CUDA1", "-co", "--no-mmap"}),
            (Words{"chat", "--prompt-file", "notes.txt", "--device", "cuda:1"}));
  EXPECT_EQ(
      translate_flags(
          {"serve", "-v", "--metrics", "--models-max", "2", "-to", "30", "--repeat-last-n", "-1"}),
      (Words{"serve", "--log-level=debug", "--max-loaded-models", "2", "--write-timeout", "30"}));
  EXPECT_EQ(refusal({"run", "--mirostat-lr", "0.1"}),
            "--mirostat-lr: this sampler does not exist; see `graft run --help`");
  EXPECT_NE(refusal({"serve", "--temp", "0.5"}).find("requests decide"), std::string::npos);
  EXPECT_NE(refusal({"run", "-md", "small.gguf"}).find("speculative"), std::string::npos);
}

// Whether a row adds the flag `to` in a command.
bool adds_flag(const FlagRow& row, bool is_serve) {
  if (row.meaning == Meaning::Refused || row.meaning == Meaning::Only) return false;
  switch (row.scope) {
    case Scope::All:
      return row.to.starts_with("--");
    case Scope::Serve:
      return is_serve;
    case Scope::Talk:
      return !is_serve;
    default:
      return false;  // of run or chat alone
  }
}

TEST(ForeignFlags, FlagsOfTheTablesExistInSomeCommandOfTheirScope) {
  Command app("test", "graft");
  add_chat(app);
  add_run(app);
  add_serve(app);
  const auto has = [&](const char* command, std::string_view flag) {
    const std::string name(flag.substr(0, flag.find('=')));
    return app.app().get_subcommand(command)->get_option_no_throw(name) != nullptr;
  };
  for (const auto rows : {ktransformers_flags(), vllm_flags(), llamacpp_flags()}) {
    for (const FlagRow& row : rows) {
      const bool in_serve = adds_flag(row, true) && has("serve", row.to);
      const bool in_talk = adds_flag(row, false) && has("run", row.to) && has("chat", row.to);
      const bool is_renamed = row.meaning == Meaning::Renamed;
      if (row.scope == Scope::All && adds_flag(row, true)) {
        EXPECT_TRUE(in_serve || in_talk) << row.from << " " << row.to;
      }
      if (row.scope == Scope::Serve && adds_flag(row, true)) {
        EXPECT_TRUE(in_serve) << row.from;
      }
      if (row.scope == Scope::Talk && adds_flag(row, false)) {
        EXPECT_TRUE(in_talk) << row.from;
      }
      if (is_renamed && row.scope == Scope::Run) {
        EXPECT_TRUE(has("run", row.to)) << row.from;
      }
      if (is_renamed && row.scope == Scope::Chat) {
        EXPECT_TRUE(has("chat", row.to)) << row.from;
      }
    }
  }
}

TEST(ForeignFlags, OtherFlagsAreUnchanged) {
  const Words arguments = {"chat", "-m", "x", "--system", "a_b", "--temperature=0"};
  EXPECT_EQ(translate_flags(arguments), arguments);
  const Words device = {"serve", "--device", "cuda:1", "--kv-cache-dtype", "q8_0"};
  EXPECT_EQ(translate_flags(device), device);
  EXPECT_EQ(translate_flags({"bench", "--max_new_tokens", "a_b", "-c", "3"}),
            (Words{"bench", "--max-new-tokens", "a_b", "-c", "3"}));
}

}  // namespace
}  // namespace graft::cli
