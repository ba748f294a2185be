// `graft plan` and `graft rules check` end to end, on configs of published models.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/base/text/json.h"
#include "graft/base/text/str.h"
#include "graft/models/families/family.h"
#include "graft/models/weights/checkpoint.h"
#include "graft/testing/formats.h"
#include "graft/testing/golden.h"
#include "graft/testing/shared_data.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

TEST(PlanCommand, PlansDeepseekV3FromItsConfig) {
  const auto config = test_data("configs/DeepSeek-V3/config.json");
  const Outcome text =
      run_program({"plan", config.string(), "--gpus", "1", "--vram", "24G", "--dram", "512G"});
  EXPECT_EQ(text.exit_code, 1) << text.err;
  EXPECT_NE(text.out.find("671.0 B parameters, 37.6 B active per token"), std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("model.layers.3-60.mlp.experts"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("DOES NOT FIT"), std::string::npos) << text.out;
  // 611 GiB, or 630 GiB where the CPU packs FP8 with its scales.
  EXPECT_NE(text.out.find("  Does not fit: cpu needs 6"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("  Fits from Q6_K on (--type Q6_K)."), std::string::npos) << text.out;
  const Outcome enough = run_program(
      {"plan", config.string(), "--gpus", "1", "--vram", "24G", "--dram", "768G", "--json"});
  EXPECT_EQ(enough.exit_code, 0) << enough.err;
  const Json json = parse_json(enough.out, "plan");
  EXPECT_EQ(json["fits"], true);
  EXPECT_EQ(json["devices"]["cpu"]["fits"], true);
  EXPECT_EQ(json["devices"]["cuda:0"]["fits"], true);
  // 61 layers x 576 values x 2 bytes x 4096 tokens.
  EXPECT_EQ(json["devices"]["cuda:0"]["kv_cache"], 61LL * 576 * 2 * 4096);
  EXPECT_GT(json["generate"]["tokens_per_s"].get<double>(), 0);
}

TEST(PlanCommand, AutoRulesHaveNoFindingsAndFit) {
  std::vector<std::string> models = {"DeepSeek-V2-Lite", "Mixtral-8x7B", "Llama-3.1-8B"};
  // The same code with many times as many experts.
  if (!kUnderSanitizers)
    models.insert(models.end(), {"DeepSeek-V3", "Qwen3-235B-A22B", "GLM-4.5-Air"});
  for (const std::string& model : models) {
    const auto config = test_data("configs/" + model + "/config.json");
    const TempDir folder;
    const std::string rules = folder / "rules.yaml";
    for (const char* gpus : {"1", "2"}) {
      const Outcome made = run_program(
          {"plan", config.string(), "--auto", "--gpus", gpus, "--vram", "14G", "--dram", "1T"});
      ASSERT_EQ(made.exit_code, 0) << made.err;
      std::ofstream(rules) << made.out;
      const Outcome check =
          run_program({"rules", "check", rules, "--model", config.string(), "--gpus", gpus});
      EXPECT_EQ(check.exit_code, 0) << model << check.out << made.out;
      EXPECT_EQ(check.out.find("warning"), std::string::npos) << model << check.out << made.out;
      const Outcome plan = run_program({"plan", config.string(), "--rules", rules, "--gpus", gpus,
                                        "--vram", "14G", "--dram", "1T", "--json"});
      ASSERT_EQ(plan.exit_code, 0) << plan.err;
      const Json json = parse_json(plan.out, "plan");
      for (const auto& [device, bytes] : json["devices"].items())
        EXPECT_EQ(bytes["fits"], true) << model << " on " << device << made.out;
      EXPECT_GT(json["devices"]["cuda:0"]["weights"].get<double>(), 1e9) << model << made.out;
      EXPECT_EQ(json["lost_fusions"], Json::array()) << model << made.out;
    }
  }
}

// The memory that KTransformers states for DeepSeek-V3 in Q4_K_M: 14 GB of a GPU and 382 GB of
// DRAM.
TEST(PlanCommand, DeepseekV3InQ4KMFitsInto24And384GiB) {
  GRAFT_SKIP_UNDER_SANITIZERS();
  const Outcome outcome =
      run_program({"plan", "deepseek-v3", "--type", "Q4_K_M", "--gpus", "1", "--vram", "24G",
                   "--dram", "384G", "--cpu-bandwidth", "300", "--threads", "32", "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = parse_json(outcome.out, "plan");
  EXPECT_EQ(json["model"], "DeepSeek-V3");
  EXPECT_EQ(json["type"], "Q4_K_M");
  EXPECT_EQ(json["figures"]["cpu"], "assumed, 32 threads and 300.0 GB/s");
  // Packed, 3 % more than in the file.
  EXPECT_NEAR(json["devices"]["cpu"]["weights"].get<double>(), 403e9, 5e9);
  // Copies of experts fill the rest of the GPU.
  EXPECT_GT(json["devices"]["cuda:0"]["weights"].get<double>(), 14.5e9);
  EXPECT_LT(json["devices"]["cuda:0"]["total"].get<double>(), 25.8e9);
  // 8 of 256 experts of 394 GB, at 300 GB/s: 41 ms, and what the GPU adds.
  EXPECT_GT(json["generate"]["tokens_per_s"].get<double>(), 8);
  EXPECT_LT(json["generate"]["tokens_per_s"].get<double>(), 25);
  const Outcome operators = run_program({"plan", "DeepSeek-V3", "--type", "q4_k_m", "--gpus", "1",
                                         "--vram", "24G", "--dram", "384G"});
  EXPECT_EQ(operators.exit_code, 0) << operators.err;
  for (const char* part : {"cuda.mla", "weights in q4_k_m", "CPU figures: this machine's CPU",
                           "GPU figures: speeds assumed"})
    EXPECT_NE(operators.out.find(part), std::string::npos) << part << " in " << operators.out;
}

TEST(PlanCommand, RuleFileOfDeepseekV3NeedsWhatKTransformersStates) {
  const std::string rules =
      (std::filesystem::path(GRAFT_SOURCE_DIR) / "rules/hybrid/deepseek_v3.yaml").string();
  const Outcome outcome =
      run_program({"plan", "deepseek-v3", "--type", "Q4_K_M", "--gpus", "1", "--vram", "24G",
                   "--dram", "384G", "--rules", rules, "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = parse_json(outcome.out, "plan");
  EXPECT_NEAR(json["devices"]["cuda:0"]["weights"].get<double>(), 14e9, 1e9);
  EXPECT_NEAR(json["devices"]["cpu"]["weights"].get<double>(), 403e9, 5e9);  // packed
}

TEST(PlanCommand, EveryFamilyWithExpertsHasAHybridRuleFile) {
  int num_families = 0;
  for (const std::filesystem::path& folder : golden_checkpoints()) {
    const auto checkpoint = models::open_checkpoint(folder);
    if (checkpoint->config().moe.num_experts == 0) continue;
    const std::string family(checkpoint->config().family->model_type());
    const std::string rules =
        (std::filesystem::path(GRAFT_SOURCE_DIR) / "rules/hybrid" / (family + ".yaml")).string();
    const Outcome outcome = run_program({"plan", folder.string(), "--rules", rules, "--gpus", "1",
                                         "--vram", "24G", "--dram", "64G", "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << family << ": " << outcome.err;
    const Json json = parse_json(outcome.out, "plan");
    EXPECT_EQ(json["findings"], Json::array()) << family;
    EXPECT_GT(json["devices"]["cpu"]["weights"], 0) << family;
    EXPECT_GT(json["devices"]["cuda:0"]["weights"], 0) << family;
    ++num_families;
  }
  EXPECT_GE(num_families, 20);
}

TEST(PlanCommand, CountsExpertsOnTheGpu) {
  const TempDir folder;
  const std::string rules = folder / "rules.yaml";
  const auto plan = [&](const std::string& count, const std::string& vram) {
    std::ofstream(rules) << "- match: {role: experts}\n"
                            "  replace: {class: experts, kwargs: {generate_device: cpu, "
                            "prefill_device: \"cuda:0\", gpu_experts: "
                         << count
                         << "}}\n"
                            "- match: {name: \"\"}\n"
                            "  replace: {class: default, kwargs: {device: \"cuda:0\"}}\n";
    return run_program({"plan", "Qwen3-30B-A3B", "--type", "Q4_K_M", "--rules", rules, "--gpus",
                        "1", "--vram", vram, "--dram", "64G"});
  };
  const Outcome fixed = plan("16", "24G");
  EXPECT_EQ(fixed.exit_code, 0) << fixed.err;
  EXPECT_NE(fixed.out.find("cuda:0 16 of 128 experts + cpu 112 of 128 experts"), std::string::npos)
      << fixed.out;
  EXPECT_NE(plan("12%", "24G").out.find("cuda:0 15 of 128 experts"), std::string::npos);
  const Outcome small = plan("auto", "12G");
  EXPECT_EQ(small.exit_code, 0) << small.err;
  EXPECT_NE(small.out.find(" of 128 experts + cpu "), std::string::npos) << small.out;
  const Outcome tiny = plan("auto", "4G");
  EXPECT_EQ(tiny.out.find(" of 128 experts"), std::string::npos) << tiny.out;
}

// Without rules the plan is the one that `--auto` prints.
// Runs with --expert-stats keep such files.
TEST(PlanCommand, ReadsStatisticsOfExperts) {
  TempDir dir;
  const std::string file = (dir / "stats.json").string();
  const std::vector<std::string> command = {"plan", "Qwen3-30B-A3B", "--type", "Q4_K_M", "--gpus",
                                            "1",    "--vram",        "8G",     "--dram", "64G"};
  const auto plan = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> all = command;
    all.insert(all.end(), more);
    return run_program(all);
  };
  const Outcome even = plan({});
  EXPECT_NE(even.out.find("% of the routing (all used equally often)"), std::string::npos)
      << even.out;
  EXPECT_NE(even.out.find(" in a pass of 512\n"), std::string::npos) << even.out;
  std::string pairs;
  for (int expert = 0; expert < 128; ++expert)
    pairs += str(expert == 0 ? "" : ",", expert < 8 ? 1000 : 1);
  formats::test::write_file(
      file, str(R"({"version": 1, "models": {"Qwen3-30B-A3B": {"model.layers.7.mlp.experts": [)",
                pairs, "]}}}"));
  const Json skewed = parse_json(plan({"--expert-stats", file, "--json"}).out, "plan");
  EXPECT_GT(skewed["hit_rate"].get<double>(), 0.98);
  EXPECT_GT(
      skewed["generate"]["tokens_per_s"].get<double>(),
      1.3 * parse_json(plan({"--json"}).out, "plan")["generate"]["tokens_per_s"].get<double>());
  const Outcome other = run_program({"plan", "DeepSeek-V3", "--expert-stats", file});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_EQ(other.err,
            str("graft: ", file, ": no expert statistics of DeepSeek-V3 (of: Qwen3-30B-A3B)\n"));
}

TEST(PlanCommand, ChoosesThePlacementThatAutoPrints) {
  const std::vector<std::string> machine = {"--gpus", "2", "--vram", "12G", "--dram", "64G"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), machine.begin(), machine.end());
    return run_program(words);
  };
  const Outcome chosen = with({"plan", "Qwen3-30B-A3B", "--json"});
  const Outcome made = with({"plan", "Qwen3-30B-A3B", "--auto"});
  EXPECT_EQ(chosen.exit_code, 0) << chosen.err;
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_NE(made.out.find("gpu_experts: "), std::string::npos) << made.out;
  const TempDir folder;
  const std::string rules = folder / "rules.yaml";
  std::ofstream(rules) << made.out;
  const Outcome again = with({"plan", "Qwen3-30B-A3B", "--json", "--rules", rules});
  EXPECT_EQ(parse_json(chosen.out, "plan")["placements"],
            parse_json(again.out, "plan")["placements"]);
}

TEST(PlanCommand, SaysWhichTypeFits) {
  const Outcome outcome = run_program({"plan", "DeepSeek-V3", "--type", "Q4_K_M", "--gpus", "1",
                                       "--vram", "24G", "--dram", "256G", "--json"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  const Json json = parse_json(outcome.out, "plan");
  EXPECT_EQ(json["fits"], false);
  const std::string type = json["fits_from"].get<std::string>();
  EXPECT_TRUE(type.starts_with("Q2_K") || type.starts_with("Q3_K")) << type;
  const Outcome smaller = run_program(
      {"plan", "DeepSeek-V3", "--type", type, "--gpus", "1", "--vram", "24G", "--dram", "256G"});
  EXPECT_EQ(smaller.exit_code, 0) << smaller.out;
  const Outcome low = run_program(
      {"plan", "DeepSeek-V3", "--type", type, "--gpus", "1", "--vram", "24G", "--dram", "160G"});
  EXPECT_NE(low.out.find("Fits from IQ2_XXS on (--type IQ2_XXS; `graft quantize` does not write"),
            std::string::npos)
      << low.out;
  const Outcome none =
      run_program({"plan", "DeepSeek-V3", "--gpus", "0", "--dram", "16G", "--json"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_EQ(parse_json(none.out, "plan")["fits_from"], Json());
}

TEST(PlanCommand, SaysThatAModelLargerThanHostMemoryRunsFromDisk) {
  GRAFT_SKIP_UNDER_SANITIZERS();  // SaysWhichTypeFits runs this code
  const std::vector<std::string> command = {"plan",   "DeepSeek-V3", "--type", "Q4_K_M",
                                            "--gpus", "1",           "--vram", "24G"};
  const auto plan = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> all = command;
    all.insert(all.end(), more);
    return run_program(all);
  };
  const Outcome text = plan({"--dram", "256G"});
  EXPECT_EQ(text.exit_code, 1) << text.err;
  EXPECT_NE(text.out.find("  Runs slowly from disk (--repack-cache): a file of "),
            std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("limited by disk"), std::string::npos) << text.out;
  const Json json = parse_json(plan({"--dram", "256G", "--json"}).out, "plan");
  EXPECT_EQ(json["fits"], false);
  EXPECT_NEAR(json["from_disk"]["file_bytes"].get<double>(), 403e9, 5e9);
  const double from_disk = json["from_disk"]["generate"]["tokens_per_s"].get<double>();
  EXPECT_GT(from_disk, 0.1);
  EXPECT_LT(from_disk, json["generate"]["tokens_per_s"].get<double>() / 2);
  EXPECT_EQ(parse_json(plan({"--dram", "768G", "--json"}).out, "plan")["from_disk"], Json());
  // GPU memory has no disk behind it.
  const std::string rules =
      (std::filesystem::path(GRAFT_SOURCE_DIR) / "rules/hybrid/deepseek_v3.yaml").string();
  const Outcome small_gpu =
      run_program({"plan", "DeepSeek-V3", "--type", "Q4_K_M", "--gpus", "1", "--vram", "8G",
                   "--dram", "256G", "--rules", rules, "--json"});
  EXPECT_EQ(parse_json(small_gpu.out, "plan")["from_disk"], Json());
}

TEST(PlanCommand, AutoWritesNoRulesThatDoNotFit) {
  const Outcome outcome = run_program(
      {"plan", "DeepSeek-V3", "--auto", "--gpus", "1", "--vram", "24G", "--dram", "384G"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  for (const char* part :
       {"DeepSeek-V3: no placement fits: cpu needs ", "has 384.0 GiB", "Fits from "})
    EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in " << outcome.err;
  const Outcome smaller = run_program({"plan", "DeepSeek-V3", "--auto", "--type", "Q4_K_M",
                                       "--gpus", "1", "--vram", "24G", "--dram", "384G"});
  EXPECT_EQ(smaller.exit_code, 0) << smaller.err;
  EXPECT_TRUE(smaller.out.starts_with("# Weights in Q4_K_M.\n# DeepSeek-V3 for ")) << smaller.out;
}

TEST(PlanCommand, PlansForMachinesByName) {
  const Outcome server =
      run_program({"plan", "DeepSeek-V3", "--type", "F8_E4M3", "--machine", "h100-server"});
  EXPECT_EQ(server.exit_code, 0) << server.out << server.err;
  for (const char* part : {"weights in F8_E4M3", "assumed, 56 cores", "H100 80GB HBM3, published"})
    EXPECT_NE(server.out.find(part), std::string::npos) << part << " in " << server.out;
  const Outcome unknown = run_program({"plan", "DeepSeek-V3", "--machine", "toaster"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("--machine toaster: no such file; machines known by name: laptop, "),
            std::string::npos)
      << unknown.err;
}

TEST(PlanCommand, RejectsWhatItDoesNotUnderstand) {
  const Outcome unit = run_program({"plan", "DeepSeek-V3", "--gpus", "1", "--vram", "24"});
  EXPECT_EQ(unit.exit_code, 2);
  EXPECT_NE(unit.err.find("--vram 24: the unit is missing, write 24G"), std::string::npos)
      << unit.err;
  const Outcome type = run_program({"plan", "DeepSeek-V3", "--type", "Q9"});
  EXPECT_EQ(type.exit_code, 2);
  EXPECT_NE(type.err.find("Q4_K_M"), std::string::npos) << type.err;
  const Outcome name = run_program({"plan", "DeepSeek-V33"});
  EXPECT_EQ(name.exit_code, 2);
  EXPECT_NE(name.err.find("built-in shapes: "), std::string::npos) << name.err;
}

TEST(RulesCommand, KnowsTheCudaOperatorsWithoutTheirLibrary) {
  const TempDir folder;
  const std::string rules = folder / "rules.yaml";
  std::ofstream(rules) << "- match: {role: linear}\n"
                          "  replace: {class: cuda.linear, kwargs: {precision: f32}}\n"
                          "- match: {name: \"\"}\n"
                          "  replace: {class: default, kwargs: {device: \"cuda:0\"}}\n";
  const Outcome outcome =
      run_program({"rules", "check", rules, "--model", "Llama-3.1-8B", "--gpus", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
}

TEST(PlanCommand, NamesLostFusionsWithoutAGpu) {
  const auto config = test_data("configs/Llama-3.1-8B/config.json");
  const TempDir folder;
  const std::string rules = folder / "rules.yaml";
  std::ofstream(rules) << "- match: {name: \"post_attention_layernorm$\"}\n"
                          "  replace: {class: default, kwargs: {device: cpu}}\n"
                          "- match: {name: \"\"}\n"
                          "  replace: {class: default, kwargs: {device: \"cuda:0\"}}\n";
  const Outcome plan =
      run_program({"plan", config.string(), "--rules", rules, "--gpus", "1", "--vram", "80G"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_NE(plan.out.find("lost fusions:\n  model.layers.0-31: add+post_attention_layernorm: "
                          "post_attention_layernorm is on cpu\n"),
            std::string::npos)
      << plan.out;
}

TEST(RulesCommand, ReportsFindingsWithLines) {
  const auto config = test_data("configs/Qwen3-30B-A3B/config.json");
  const TempDir folder;
  const std::string rules = folder / "rules.yaml";
  std::ofstream(rules) << "- match: {name: \"^lm_head$\", colour: red}\n"
                          "  replace: {class: cpu.nonsense}\n"
                          "- match: {name: \"^model.layers.99\"}\n"
                          "  replace: {class: default, kwargs: {device: cpu}}\n"
                          "- match: {role: experts}\n"
                          "  replace: {class: default, kwargs: {device: \"cuda:5\"}}\n";
  const Outcome outcome =
      run_program({"rules", "check", rules, "--model", config.string(), "--gpus", "1"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  for (const char* part : {":1: error", "colour", "cpu.nonsense", ":3: warning", "cuda:5"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
  EXPECT_EQ(
      run_program({"rules", "check", folder / "none.yaml", "--model", config.string()}).exit_code,
      2);
}

// Keys and values of kwargs of GPU operators are checked without libgraft_cuda.so.
TEST(RulesCommand, ChecksKwargsForAMachineWithGpus) {
  const auto config = test_data("configs/Qwen3-30B-A3B/config.json");
  const TempDir folder;
  const std::string rules = folder / "rules.yaml";
  std::ofstream(rules) << "- match: {role: norm}\n"
                          "  replace: {class: default, kwargs: {devcie: cpu}}\n"
                          "- match: {role: linear}\n"
                          "  replace: {class: default, kwargs: {precision: fastest}}\n"
                          "- match: {role: kv_cache}\n"
                          "  replace: {class: default, kwargs: {dtype: q5_1}}\n"
                          "- match: {role: experts}\n"
                          "  replace: {class: cpu.experts, kwargs: {repack: maybe}}\n";
  const Outcome outcome =
      run_program({"rules", "check", rules, "--model", config.string(), "--gpus", "1"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  for (const char* part :
       {":2: error: unknown kwarg \"devcie\" of cuda.rms_norm",
        ":4: error: cuda.linear: precision is 'fastest', expected fast or f32",
        ":6: error: cuda.kv_cache: dtype is 'q5_1', expected f32, f16, bf16, fp8, q8_0 or q4_0",
        ":8: error: cpu.experts: repack is 'maybe', expected true or false", " and 47 more)"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in " << outcome.out;
}

TEST(RulesCommand, ReportsWhatDoesNotFit) {
  const auto config = test_data("configs/Qwen3-30B-A3B/config.json");
  const TempDir folder;
  const std::string rules = folder / "rules.yaml";
  std::ofstream(rules) << "- match: {name: \"\"}\n"
                          "  replace: {class: default, kwargs: {device: \"cuda:0\"}}\n";
  const auto check = [&](const std::vector<std::string>& machine) {
    std::vector<std::string> words = {"rules", "check", rules, "--model", config.string()};
    words.insert(words.end(), machine.begin(), machine.end());
    return run_program(words);
  };
  const Outcome small = check({"--gpus", "1", "--vram", "8G"});
  EXPECT_EQ(small.exit_code, 1) << small.out;
  EXPECT_NE(small.out.find("error: the model does not fit: cuda:0 needs "), std::string::npos)
      << small.out;
  EXPECT_NE(small.out.find("valid, but too large"), std::string::npos) << small.out;
  for (const Outcome& large : {check({"--gpus", "1", "--vram", "640G"}), check({"--gpus", "1"})})
    EXPECT_EQ(large.out.find("does not fit"), std::string::npos) << large.out;
  const Outcome none = check({"--gpus", "0"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_NE(none.out.find(":2: error: 1 rule places modules on cuda:0, but the machine has no GPU"),
            std::string::npos)
      << none.out;
}

}  // namespace
}  // namespace graft::tests
