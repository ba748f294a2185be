#include "graft/hub/model_ref.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/base/system/temp_dir.h"

namespace graft::hub {
namespace {

TEST(ModelRef, ReadsEverySource) {
  EXPECT_EQ(parse_model_ref("unsloth/Qwen3-0.6B-GGUF"),
            (ModelRef{.repo = "unsloth/Qwen3-0.6B-GGUF"}));
  EXPECT_EQ(parse_model_ref("org/repo:Q4_K_M@v1.0"),
            (ModelRef{.repo = "org/repo", .selector = "Q4_K_M", .revision = "v1.0"}));
  EXPECT_EQ(parse_model_ref("hf:org/repo:sub/model.gguf"),
            (ModelRef{.repo = "org/repo", .selector = "sub/model.gguf"}));
  EXPECT_EQ(parse_model_ref("ms:Qwen/Qwen3-8B"),
            (ModelRef{.source = Source::ModelScope, .repo = "Qwen/Qwen3-8B"}));
  EXPECT_EQ(parse_model_ref("ollama:llama3.2:1b"),
            (ModelRef{.source = Source::Ollama, .repo = "library/llama3.2", .selector = "1b"}));
  EXPECT_EQ(parse_model_ref("ollama:user/model"),
            (ModelRef{.source = Source::Ollama, .repo = "user/model", .selector = "latest"}));
  EXPECT_EQ(parse_model_ref("ollama:hf.co/org/repo:Q8_0"),
            (ModelRef{.repo = "org/repo", .selector = "Q8_0"}));
  EXPECT_EQ(parse_model_ref("https://example.org/a/b.gguf?x=1"),
            (ModelRef{.source = Source::Url, .repo = "https://example.org/a/b.gguf?x=1"}));
}

TEST(ModelRef, ReadsUrlsOfHuggingFace) {
  EXPECT_EQ(parse_model_ref("https://huggingface.co/org/repo"), (ModelRef{.repo = "org/repo"}));
  EXPECT_EQ(parse_model_ref("https://huggingface.co/org/repo/blob/main/a/m.gguf"),
            (ModelRef{.repo = "org/repo", .selector = "a/m.gguf"}));
  EXPECT_EQ(parse_model_ref("https://huggingface.co/org/repo/resolve/v2/m.gguf?download=true"),
            (ModelRef{.repo = "org/repo", .selector = "m.gguf", .revision = "v2"}));
}

TEST(ModelRef, LeavesPathsAndPlainNames) {
  for (const char* text : {"", "sprout", "./org/repo", "../org/repo", "/org/repo", "~/org/repo",
                           "org/repo/file", "models/missing.gguf", "a/config.json", "llama3.2:1b"})
    EXPECT_EQ(parse_model_ref(text), std::nullopt) << text;
}

// A mistyped path must not become a download.
TEST(ModelRef, LeavesNamesInAnExistingFolder) {
  const TempDir folder;
  std::filesystem::create_directories(folder / "models");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto ref = parse_model_ref("models/typo");
  const auto other = parse_model_ref("elsewhere/typo");
  std::filesystem::current_path(before);
  EXPECT_EQ(ref, std::nullopt);
  EXPECT_TRUE(other.has_value());
}

TEST(ModelRef, RejectsMalformedReferences) {
  for (const char* text :
       {"hf:repo", "hf:org/repo:", "hf:org/repo:../x", "hf:org/../x", "ms:a/b@", "ms:a/b@x y",
        "ollama:", "ollama:a b", "ollama:a/b/c", "hf:.x/y", "hf:org/repo:/etc/passwd",
        "ollama:llama3.2:../x", "https://huggingface.co/org/repo/resolve/main/../../x.gguf"})
    EXPECT_THROW(parse_model_ref(text), Error) << text;
}

TEST(ModelRef, TextIsReadAgain) {
  for (const char* text : {"org/repo:Q4_K_M@v1", "ms:org/repo", "ollama:llama3.2:1b",
                           "ollama:user/model:latest", "https://example.org/m.gguf"})
    EXPECT_EQ(to_string(*parse_model_ref(text)), text);
}

TEST(ModelRef, RefusesRemotePathsThatLeaveTheirFolder) {
  for (const std::string& path :
       {std::string("../x"), std::string("a/../../x"), std::string("/etc/passwd"), std::string(),
        std::string("a//b"), std::string("./a"), std::string("a\\b"), std::string("a\nb"),
        std::string("a\0b", 3), std::string(600, 'a'), std::string("a/")})
    EXPECT_THROW(check_remote_path(path, "org/repo"), Error) << path;
  check_remote_path("a/b-00001-of-00002.gguf", "org/repo");
}

}  // namespace
}  // namespace graft::hub
