#include "graft/server/openai/responses/store.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"
#include "graft/server/api_error.h"
#include "graft/server/openai/responses/item_list.h"

namespace graft::server::openai::responses {
namespace {

StoredItem item(const std::string& id) {
  return {.id = id, .text = std::make_shared<const std::string>(R"({"id":")" + id + R"("})")};
}

StoredResponse response(const std::string& id, std::size_t num_bytes = 10) {
  return {.id = id, .text = std::string(num_bytes, 'x'), .items = {item("in-" + id)}};
}

TEST(ResponseStore, ClientsSeeOnlyTheirOwn) {
  ResponseStore store;
  store.add(1, response("a"));
  EXPECT_EQ(store.find(1, "a")->id, "a");
  EXPECT_EQ(store.find(2, "a"), nullptr);
  EXPECT_NE(store.find_item(1, "in-a"), nullptr);
  EXPECT_EQ(store.find_item(2, "in-a"), nullptr);
  EXPECT_FALSE(store.remove(2, "a"));
  EXPECT_TRUE(store.remove(1, "a"));
  EXPECT_FALSE(store.remove(1, "a"));
  EXPECT_EQ(store.find_item(1, "in-a"), nullptr);
  EXPECT_EQ(store.num_bytes(), 0U);
}

TEST(ResponseStore, DropsTheLeastRecentlyUsed) {
  ResponseStore store({.max_responses = 3});
  for (const char* id : {"a", "b", "c"})
    store.add(1, response(id));
  EXPECT_NE(store.find(1, "a"), nullptr);
  store.add(1, response("d"));
  EXPECT_EQ(store.size(), 3U);
  EXPECT_EQ(store.find(1, "b"), nullptr);
  EXPECT_NE(store.find(1, "a"), nullptr);
}

// A client that stores much does not drop the responses of others.
TEST(ResponseStore, BytesAreTakenFromTheLargestClient) {
  ResponseStore store({.max_bytes = 10'000});
  store.add(1, response("old", 1'000));
  for (int i = 0; i < 20; ++i) {
    store.add(2, response(std::to_string(i), 2'000));
    EXPECT_LE(store.num_bytes(), 10'000U);
  }
  EXPECT_NE(store.find(1, "old"), nullptr);
  EXPECT_NE(store.find(2, "19"), nullptr);
  EXPECT_EQ(store.find(2, "0"), nullptr);
  store.add(1, response("huge", 20'000));
  EXPECT_EQ(store.find(1, "huge"), nullptr);
  EXPECT_NE(store.find(2, "19"), nullptr);
}

TEST(ResponseStore, ZeroBytesKeepNothing) {
  ResponseStore store({.max_bytes = 0});
  store.add(1, response("a", 0));
  EXPECT_EQ(store.size(), 0U);
}

TEST(ItemList, PagesThroughTheItemsOfTheRequest) {
  const StoredResponse stored = {
      .id = "r",
      .items = {item("old"), item("a"), item("b"), item("c"), item("out")},
      .num_previous = 1,
      .num_input = 3};
  const auto ids = [&](const std::string& query) {
    std::string text;
    const Json page = Json::parse(item_list(stored, query));
    for (const Json& entry : page["data"])
      text += entry["id"].get<std::string>();
    return text;
  };
  EXPECT_EQ(ids(""), "cba");
  EXPECT_EQ(ids("order=asc"), "abc");
  EXPECT_EQ(ids("order=asc&limit=2"), "ab");
  EXPECT_EQ(ids("order=asc&after=a"), "bc");
  EXPECT_EQ(ids("after=c&limit=1"), "b");
  const Json page = Json::parse(item_list(stored, "limit=2"));
  EXPECT_EQ(page["first_id"], "c");
  EXPECT_EQ(page["last_id"], "b");
  EXPECT_EQ(page["has_more"], true);
  EXPECT_TRUE(Json::parse(item_list(stored, "after=a"))["first_id"].is_null());
  for (const char* query : {"limit=0", "limit=101", "limit=x", "order=up", "after=old"})
    EXPECT_THROW(item_list(stored, query), ApiError) << query;
}

TEST(ItemList, DecodesQueries) {
  EXPECT_EQ(query_value("a=1&b=x%20y&c", "b"), "x y");
  EXPECT_EQ(query_value("a=1&b=x%20y&c", "c"), "");
  EXPECT_FALSE(query_value("a=1", "b"));
  EXPECT_FALSE(query_value("", "a"));
}

}  // namespace
}  // namespace graft::server::openai::responses
