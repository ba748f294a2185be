// Responses that arrive in pieces of random length.

#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "graft/chat/reasoning.h"
#include "graft/chat/response_delta.h"

namespace graft::chat::testing {

struct SplitCase {
  std::string text;
  std::string reasoning;
  std::string content;
  bool open = false;  // the prompt ends inside the reasoning
};

inline ResponseDelta split(ReasoningSplitter& splitter,
                           std::string_view text,
                           std::size_t max_piece,
                           std::mt19937& random) {
  ResponseDelta whole;
  const auto add = [&](const ResponseDelta& part) {
    whole.reasoning += part.reasoning;
    whole.content += part.content;
  };
  while (!text.empty()) {
    const std::size_t count = std::min(text.size(), 1 + random() % max_piece);
    add(splitter.feed(text.substr(0, count)));
    text.remove_prefix(count);
  }
  add(splitter.finish());
  return whole;
}

// The result must not depend on the pieces.
template <class... Tags>
void expect_split(const SplitCase& c, const Tags&... tags) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    ReasoningSplitter splitter(c.open, tags...);
    const ResponseDelta got = split(splitter, c.text, round == 0 ? 1 : 9, random);
    EXPECT_EQ(got.reasoning, c.reasoning) << c.text;
    EXPECT_EQ(got.content, c.content) << c.text;
  }
}

}  // namespace graft::chat::testing
