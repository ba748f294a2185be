#include "graft/engine/speculation/speculation.h"

#include <string>

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::engine {
namespace {

using Method = Speculation::Method;

TEST(Speculation, TextForms) {
  EXPECT_EQ(parse_speculation("off"), Speculation());
  EXPECT_EQ(parse_speculation("ngram"), (Speculation{.method = Method::Ngram}));
  EXPECT_EQ(parse_speculation("ngram:2,8"),
            (Speculation{.method = Method::Ngram, .min_match = 2, .max_tokens = 8}));
  EXPECT_EQ(parse_speculation("auto"),
            (Speculation{.method = Method::Ngram, .is_automatic = true}));
  for (const char* text : {"off", "auto", "ngram:3,5", "ngram:1,64"})
    EXPECT_EQ(to_string(parse_speculation(text)), text);
}

TEST(Speculation, RejectsOtherTexts) {
  for (const char* text :
       {"", "on", "mtp", "ngram:", "ngram:3", "ngram:3,", "ngram:,5", "ngram:0,5", "ngram:3,0",
        "ngram:3,65", "ngram:3,5,7", "ngram:x,5", "auto:3,5"})
    EXPECT_THROW(parse_speculation(text), Error) << text;
  try {
    parse_speculation("ngram:3");
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "'ngram:3': expected off, auto, ngram or ngram:N,K with N from 1 to 1024 and K from "
              "1 to 64, as in ngram:3,5");
  }
}

}  // namespace
}  // namespace graft::engine
