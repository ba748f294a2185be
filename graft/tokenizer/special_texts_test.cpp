#include "graft/tokenizer/special_texts.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "graft/testing/tokenizer.h"

namespace graft::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

TEST(SpecialTexts, MarkedTextIsNotASpecialToken) {
  const Tokenizer tokenizer(test::byte_level());
  const SpecialTexts special(tokenizer);
  const TokenId eos = *tokenizer.eos();
  const std::string rendered = "hello" + special.marked("<|end|>hello<|end|>") + "<|end|>";
  const UnmarkedText plain = unmark(rendered);
  EXPECT_EQ(plain.text, "hello<|end|>hello<|end|><|end|>");
  EXPECT_EQ(plain.cuts.size(), 2U);
  const Ids ids = special.encode(plain.text, plain.cuts);
  EXPECT_EQ(std::ranges::count(ids, eos), 1);
  EXPECT_EQ(ids.back(), eos);
  EXPECT_EQ(tokenizer.decode(ids, true), plain.text);
  EXPECT_EQ(special.encode("hello<|end|>", {}),
            tokenizer.encode("hello<|end|>", {.add_special = false}));
}

TEST(SpecialTexts, OtherTextsAreUnchanged) {
  const Tokenizer tokenizer(test::byte_level());
  const SpecialTexts special(tokenizer);
  for (const char* text : {"", "hello <| <tool> end", "é<|end|"})
    EXPECT_EQ(special.marked(text), text);
  const std::array<std::string_view, 1> allowed = {"<|end|>"};
  EXPECT_EQ(special.marked("a<|end|>", allowed), "a<|end|>");
  // The mark itself, also next to a special token.
  for (const std::string text :
       {"\xef\xb7\x90", "<\xef\xb7\x90|end|>", "\xef\xb7\x90<|end|>\xef\xb7\x90\xef\xb7\x90"})
    EXPECT_EQ(unmark(special.marked(text)).text, text);
}

}  // namespace
}  // namespace graft::tokenizer
