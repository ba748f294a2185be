// Adapters against PEFT's results for the same files, and against the model without them.

#include "graft/models/lora/adapter.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"
#include "graft/models/generate.h"
#include "graft/models/open_model.h"
#include "graft/models/weights/verify.h"
#include "graft/testing/checkpoints/gguf_adapter.h"
#include "graft/testing/golden.h"

namespace graft::models {
namespace {

namespace fs = std::filesystem;

struct AdapterCase {
  const char* base;
  const char* adapter;
};

class GoldenAdapter : public ::testing::TestWithParam<AdapterCase> {};

TEST_P(GoldenAdapter, MatchesTheReference) {
  const fs::path folder = golden_adapter(GetParam().adapter);
  for (const std::int64_t chunk : {0, 7}) {
    VerifyOptions options;
    options.chunk = chunk;
    options.adapter = 0;
    options.open.adapters = {{.name = "a", .path = folder}};
    const VerifyReport report =
        verify(golden_checkpoint(GetParam().base), folder / "reference.safetensors", options);
    EXPECT_TRUE(report.ok()) << report.largest_error();
    EXPECT_LE(report.largest_error(), 1e-4);
  }
}

TEST_P(GoldenAdapter, WithoutItTheReferenceDiffers) {
  const fs::path folder = golden_adapter(GetParam().adapter);
  EXPECT_FALSE(verify(golden_checkpoint(GetParam().base), folder / "reference.safetensors").ok());
}

INSTANTIATE_TEST_SUITE_P(All,
                         GoldenAdapter,
                         ::testing::Values(AdapterCase{"llama", "llama-lora-a"},
                                           AdapterCase{"llama", "llama-lora-b"},
                                           AdapterCase{"deepseek-v2-lite",
                                                       "deepseek-v2-lite-lora"}),
                         [](const auto& test) {
                           std::string name = test.param.adapter;
                           std::erase(name, '-');
                           return name;
                         });

bool has_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Repacked weights too, whose layers are fused.
TEST(AdapterBatch, RowsDoNotDependOnTheAdaptersOfOthers) {
  for (const bool repack : {false, true}) {
    OpenOptions options = {.load = {.repack = repack}};
    OpenModel plain(golden_checkpoint("llama"), options);
    options.adapters = {{.name = "a", .path = golden_adapter("llama-lora-a")},
                        {.name = "b", .path = golden_adapter("llama-lora-b")}};
    OpenModel open(golden_checkpoint("llama"), options);
    const std::vector<TokenIds> prompts =
        read_reference_prompts(golden_adapter("llama-lora-a") / "reference.safetensors");
    const std::vector<TokenIds> mixed = {prompts[0], prompts[1], prompts[0], prompts[1],
                                         prompts[0]};
    const std::vector<std::int32_t> adapters = {0, -1, 1, 0, -1};
    const auto together = run_prompts(open.model(), mixed, {.chunk = 13, .adapters = adapters});
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      const auto alone =
          run_prompts(open.model(), {&mixed[i], 1}, {.adapters = {adapters[i]}}).front();
      EXPECT_TRUE(has_same_bits(together[i].logits, alone.logits)) << i << ", repack " << repack;
      if (adapters[i] >= 0) continue;
      const auto base = run_prompts(plain.model(), {&mixed[i], 1}).front();
      EXPECT_TRUE(has_same_bits(together[i].logits, base.logits)) << i << ", repack " << repack;
    }
    EXPECT_FALSE(has_same_bits(together[0].logits, together[2].logits));
    EXPECT_FALSE(has_same_bits(together[0].logits, together[4].logits));
  }
}

TEST(AdapterBatch, LatentAttentionMixesAdaptersToo) {
  OpenOptions options;
  OpenModel plain(golden_checkpoint("deepseek-v2-lite"), options);
  options.adapters = {{.name = "a", .path = golden_adapter("deepseek-v2-lite-lora")}};
  OpenModel open(golden_checkpoint("deepseek-v2-lite"), options);
  const std::vector<TokenIds> prompts =
      read_reference_prompts(golden_adapter("deepseek-v2-lite-lora") / "reference.safetensors");
  const std::vector<TokenIds> mixed = {prompts[0], prompts[1], prompts[0]};
  const auto together = run_prompts(open.model(), mixed, {.chunk = 11, .adapters = {-1, 0, 0}});
  const auto base = run_prompts(plain.model(), {&mixed[0], 1}).front();
  EXPECT_TRUE(has_same_bits(together[0].logits, base.logits));
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    const auto alone = run_prompts(open.model(), {&mixed[i], 1}, {.adapters = {0}}).front();
    EXPECT_TRUE(has_same_bits(together[i].logits, alone.logits)) << i;
  }
  EXPECT_FALSE(has_same_bits(together[0].logits, together[2].logits));
}

TEST(AdapterBatch, AClearedAdapterLeavesNothing) {
  OpenOptions options;
  options.adapters = {{.name = "a", .path = golden_adapter("llama-lora-a")}};
  OpenModel open(golden_checkpoint("llama"), options);
  const TokenIds prompt = {1, 5, 9, 2};
  const auto before = run_prompts(open.model(), {&prompt, 1}).front();
  EXPECT_GT(open.model().adapter_bytes().at(kCpu), 0U);
  open.model().clear_adapter(0);
  EXPECT_EQ(open.model().adapter_bytes().at(kCpu), 0U);
  const auto after = run_prompts(open.model(), {&prompt, 1}, {.adapters = {0}}).front();
  EXPECT_TRUE(has_same_bits(before.logits, after.logits));
}

// llama.cpp interleaves the rows of q and k.
TEST(GgufAdapter, EqualsThePeftAdapter) {
  const TempDir folder;
  const fs::path base = golden_checkpoint("llama");
  const fs::path peft = golden_adapter("llama-lora-a");
  testing::write_gguf_adapter(peft, base, 16.0F, folder / "a.gguf");
  const auto checkpoint = open_checkpoint(base);
  OpenModel open(base, {.adapters = {{.name = "peft", .path = peft},
                                     {.name = "gguf", .path = folder / "a.gguf"}}});
  EXPECT_EQ(open.adapters()[0].identity, open.adapters()[1].identity);
  OpenModel scaled(base, {.adapters = {{.name = "peft", .path = peft, .scale = 0.5}}});
  EXPECT_NE(open.adapters()[0].identity, scaled.adapters()[0].identity);
}

std::string adapter_error(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Adapter, NamesTheTensorThatDoesNotFit) {
  const auto error = [](const char* base, const char* adapter) {
    return adapter_error([&] {
      OpenModel(golden_checkpoint(base),
                {.adapters = {{.name = "a", .path = golden_adapter(adapter)}}});
    });
  };
  const std::string shape = error("llama", "deepseek-v2-lite-lora");
  EXPECT_NE(shape.find("self_attn.q_proj.lora_B.weight: B is [192, 8]"), std::string::npos)
      << shape;
  EXPECT_NE(shape.find("the adapter is for ../../golden/deepseek-v2-lite"), std::string::npos);
  const std::string missing = error("deepseek-v2-lite", "llama-lora-b");
  EXPECT_NE(missing.find("lora_B.weight"), std::string::npos) << missing;
}

// The shapes fit; the adapter's file names another base.
TEST(Adapter, WarnsAboutTheNameOfAnotherBase) {
  const TempDir folder;
  const auto warnings = [&](const char* name) {
    fs::copy(golden_checkpoint("llama"), folder / name, fs::copy_options::recursive);
    std::vector<std::string> lines;
    OpenOptions options;
    options.adapters = {{.name = "a", .path = golden_adapter("llama-lora-a")}};
    options.load.on_warning = [&](const std::string& line) { lines.push_back(line); };
    OpenModel(folder / name, options);
    return lines;
  };
  EXPECT_TRUE(warnings("My-Llama-8B").empty());
  const std::vector<std::string> lines = warnings("mistral");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("the adapter is for ../../golden/llama, the model is named mistral"),
            std::string::npos)
      << lines[0];
}

TEST(Adapter, NamesTheModuleThatCannotHaveOne) {
  const TempDir folder;
  const auto checkpoint = open_checkpoint(golden_checkpoint("llama"));
  fs::copy(golden_adapter("llama-lora-a"), folder / "a");
  const fs::path weights = folder / "a/adapter_model.safetensors";
  std::string bytes(fs::file_size(weights), '\0');
  std::ifstream(weights, std::ios::binary).read(bytes.data(), std::ssize(bytes));
  const auto replace_all = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = 0; (at = bytes.find(from, at)) != std::string::npos; at += to.size())
      bytes.replace(at, from.size(), to);
  };
  replace_all("layers.0.mlp.gate_proj", "layers.9.mlp.gate_proj");
  fs::permissions(weights, fs::perms::owner_all);
  std::ofstream(weights, std::ios::binary) << bytes;
  const std::string error = adapter_error([&] {
    OpenModel(golden_checkpoint("llama"), {.adapters = {{.name = "a", .path = folder / "a"}}});
  });
  EXPECT_NE(error.find("layers.9.mlp.gate_proj.lora_B.weight: the model has no linear layer"),
            std::string::npos)
      << error;
}

TEST(AdapterSource, IsANamedPathWithAScale) {
  EXPECT_EQ(parse_adapter_source("sql=/a/b"), (AdapterSource{.name = "sql", .path = "/a/b"}));
  EXPECT_EQ(parse_adapter_source("sql=/a/b:0.5"),
            (AdapterSource{.name = "sql", .path = "/a/b", .scale = 0.5}));
  EXPECT_EQ(parse_adapter_source("sql=/a:b"), (AdapterSource{.name = "sql", .path = "/a:b"}));
  for (const char* wrong : {"", "sql", "sql=", "=/a", "s/q=/a", "s:q=/a", "sql=/a:1e99"})
    EXPECT_NE(adapter_error([&] { parse_adapter_source(wrong); }), "") << wrong;
}

}  // namespace
}  // namespace graft::models
