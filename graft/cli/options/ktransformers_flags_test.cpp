#include "graft/cli/options/ktransformers_flags.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::cli {
namespace {

using Words = std::vector<std::string>;

TEST(KtransformersFlags, AreTranslated) {
  EXPECT_EQ(translate_ktransformers({"chat", "--model_path", "org/name", "--gguf_path", "/m/gguf",
                                     "--optimize_config_path", "r.yaml", "--cpu_infer", "33",
                                     "--max_new_tokens=1000", "--chunk_size", "512",
                                     "--prompt_file", "p.txt", "--mode", "normal"}),
            (Words{"chat", "--rules", "r.yaml", "--threads", "33", "--max-new-tokens", "1000",
                   "--chunk-prefill", "512", "--prompt-file", "p.txt", "--model", "/m/gguf"}));
  EXPECT_EQ(translate_ktransformers({"chat", "--model_path", "/m"}),
            (Words{"chat", "--model", "/m"}));
}

TEST(KtransformersFlags, BooleansMayOmitTheValue) {
  EXPECT_EQ(translate_ktransformers({"--force_think", "--use_cuda_graph"}), (Words{"--think=on"}));
  EXPECT_EQ(translate_ktransformers({"--force_think", "True", "--use_cuda_graph", "False"}),
            (Words{"--think=on", "--enforce-eager"}));
  EXPECT_EQ(translate_ktransformers({"--force_think=false"}), Words{});
  EXPECT_THROW(translate_ktransformers({"--use_cuda_graph", "perhaps"}), Error);
  EXPECT_THROW(translate_ktransformers({"--cpu_infer"}), Error);
}

TEST(KtransformersFlags, OtherFlagsAreUnchanged) {
  const Words arguments = {"chat", "-m", "x", "--system", "a_b", "--temperature=0"};
  EXPECT_EQ(translate_ktransformers(arguments), arguments);
}

}  // namespace
}  // namespace graft::cli
