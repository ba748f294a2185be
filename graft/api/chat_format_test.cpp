#include "graft/api/chat_format.h"

#include <gtest/gtest.h>

#include "graft/models/families/family.h"

namespace graft::api {
namespace {

TEST(ChatFormat, FamiliesNameBuiltinTemplates) {
  for (const models::Family* family : models::families()) {
    const chat::SelectedTemplate selected = chat::select_template({}, "", family->chat);
    const std::string_view name = family->chat.builtin_template;
    EXPECT_NE(selected.warning.find(name.empty() ? "chatml" : name), std::string::npos)
        << family->model_type();
    EXPECT_FALSE(family->chat.reasoning.open.empty()) << family->model_type();
    EXPECT_FALSE(family->chat.reasoning.close.empty()) << family->model_type();
  }
}

// A prefix without a token would make every template lack it.
TEST(ChatFormat, PrefixesContainTheirToken) {
  for (const models::Family* family : models::families()) {
    const formats::PromptPrefix& prefix = family->chat.prefix;
    EXPECT_EQ(prefix.text.empty(), prefix.token.empty()) << family->model_type();
    EXPECT_NE(prefix.text.find(prefix.token), std::string_view::npos) << family->model_type();
  }
}

}  // namespace
}  // namespace graft::api
