// LoRA adapters in the commands: verify, convert, plan, run.

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"
#include "graft/models/weights/verify.h"
#include "graft/testing/checkpoints/gguf_adapter.h"
#include "graft/testing/checkpoints/peft_adapter.h"
#include "graft/testing/golden.h"

#include "tests/program.h"
#include "tests/server/server_process.h"

namespace graft::tests {
namespace {

std::string lora(const std::string& name, const std::filesystem::path& path) {
  return name + "=" + path.string();
}

TEST(AdapterCommands, VerifyComparesWithTheReferenceOfTheAdapter) {
  for (const auto& [base, adapter] : std::vector<std::pair<const char*, const char*>>{
           {"llama", "llama-lora-a"},
           {"llama", "llama-lora-b"},
           {"deepseek-v2-lite", "deepseek-v2-lite-lora"}}) {
    const std::vector<std::string> words = {"verify", golden_checkpoint(base).string(), "--lora",
                                            lora("a", golden_adapter(adapter))};
    const Outcome outcome = run_program(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("24 of 24 tokens equal"), std::string::npos) << outcome.out;
    std::vector<std::string> half = words;
    half.back() += ":0.5";
    EXPECT_EQ(run_program(half).exit_code, 1);
    std::vector<std::string> converted = words;
    converted.insert(converted.end(), {"--gguf-via", "F32"});
    EXPECT_EQ(run_program(converted).exit_code, 0);
  }
}

TEST(AdapterCommands, ConvertMergesTheAdapter) {
  for (const auto& [base, adapter] : std::vector<std::pair<const char*, const char*>>{
           {"llama", "llama-lora-b"}, {"deepseek-v2-lite", "deepseek-v2-lite-lora"}}) {
    const TempDir folder;
    const std::string merged = folder / "merged.gguf";
    const Outcome outcome =
        run_program({"convert", golden_checkpoint(base).string(), merged, "--type", "F32",
                     "--merge-lora", lora("a", golden_adapter(adapter))});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const models::VerifyReport report =
        models::verify(merged, golden_adapter(adapter) / "reference.safetensors");
    EXPECT_TRUE(report.ok()) << report.largest_error();
  }
}

TEST(AdapterCommands, QuantizeMergesAGgufAdapter) {
  const TempDir folder;
  const std::string base = golden_checkpoint("llama").string();
  const std::string gguf = folder / "base.gguf";
  const std::string adapter = folder / "adapter.gguf";
  testing::write_gguf_adapter(golden_adapter("llama-lora-a"), base, 16.0F, adapter);
  ASSERT_EQ(run_program({"convert", base, gguf, "--type", "F32"}).exit_code, 0);
  expect_user_error(run_program({"quantize", gguf, folder / "x.gguf", "F32", "--merge-lora",
                                 lora("a", golden_adapter("llama-lora-a"))}),
                    "a GGUF adapter into a GGUF file");
  const std::string merged = folder / "merged.gguf";
  const Outcome outcome =
      run_program({"quantize", gguf, merged, "F32", "--merge-lora", "a=" + adapter});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const models::VerifyReport report =
      models::verify(merged, golden_adapter("llama-lora-a") / "reference.safetensors");
  EXPECT_TRUE(report.ok()) << report.largest_error();
}

TEST(AdapterCommands, PlanShowsAdapters) {
  const std::vector<std::string> words = {"plan", golden_checkpoint("llama").string(), "--lora",
                                          lora("a", golden_adapter("llama-lora-a"))};
  const Outcome text = run_program(words);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("adapter a: "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("rank up to 8"), std::string::npos) << text.out;
  std::vector<std::string> json = words;
  json.emplace_back("--json");
  const Json with = parse_json(run_program(json).out, "plan");
  const Json without =
      parse_json(run_program({"plan", golden_checkpoint("llama").string(), "--json"}).out, "plan");
  ASSERT_EQ(with["adapters"].size(), 1U);
  const auto bytes = with["adapters"][0]["bytes"]["cpu"].get<std::uint64_t>();
  EXPECT_GT(bytes, 0U);
  EXPECT_EQ(with["devices"]["cpu"]["weights"].get<std::uint64_t>(),
            without["devices"]["cpu"]["weights"].get<std::uint64_t>() + bytes);
}

// An adapter of kv_b_proj keeps latent attention absorbed for all rows.
TEST(AdapterCommands, PlanCountsTheWorkspaceOfAbsorbedAttention) {
  const std::vector<std::string> words = {
      "plan",       golden_checkpoint("deepseek-v2-lite").string(),
      "--gpus",     "1",
      "--vram",     "24G",
      "--context",  "64",
      "--parallel", "2000",
      "--json"};
  std::vector<std::string> adapted = words;
  adapted.insert(adapted.end(), {"--lora", lora("a", golden_adapter("deepseek-v2-lite-lora"))});
  const auto workspace = [](const std::vector<std::string>& command) {
    const Json plan = parse_json(run_program(command).out, "plan");
    return plan["devices"]["cuda:0"]["workspace"].get<std::uint64_t>();
  };
  EXPECT_GT(workspace(adapted), workspace(words));
}

TEST(AdapterCommands, RunAppliesTheAdapter) {
  const TempDir folder;
  testing::write_peft_adapter(bundled_model(), folder / "a", 1, 0.3F);
  const std::vector<std::string> words = {"run", "-m", bundled_model(), "--temperature", "0",
                                          "-n",  "12", "The weather"};
  const Outcome plain = run_program(words);
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  std::vector<std::string> adapted = words;
  adapted.insert(adapted.end(), {"--lora", lora("a", folder / "a")});
  const Outcome with = run_program(adapted);
  EXPECT_EQ(with.exit_code, 0) << with.err;
  EXPECT_NE(with.out, plain.out);
  adapted.back() += ":0";
  EXPECT_EQ(run_program(adapted).out, plain.out);
  adapted.insert(adapted.end(), {"--lora", lora("b", folder / "a")});
  expect_user_error(run_program(adapted), "only graft serve takes more than one");
}

TEST(AdapterCommands, ErrorsNameTheFile) {
  const std::string base = golden_checkpoint("llama").string();
  expect_user_error(run_program({"verify", base, "--lora", "a=/nowhere"}),
                    "/nowhere: no such file");
  expect_user_error(run_program({"verify", base, "--lora", "/nowhere"}), "expected NAME=PATH");
  expect_user_error(
      run_program({"verify", base, "--lora", lora("a", golden_adapter("deepseek-v2-lite-lora"))}),
      "the adapter is for ../../golden/deepseek-v2-lite");
  expect_user_error(run_program({"run", "-m", golden_adapter("llama-lora-a").string(), "x"}),
                    "a LoRA adapter, not a model");
}

}  // namespace
}  // namespace graft::tests
