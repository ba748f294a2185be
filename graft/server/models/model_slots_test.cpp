#include "graft/server/models/model_slots.h"

#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "graft/server/api_error.h"

namespace graft::server {
namespace {

using Handles = std::vector<std::shared_ptr<void>>;

bool is_admitted(ModelSlots& slots, std::uint64_t client, std::int64_t count, std::int64_t max) {
  try {
    slots.reserve(client, count, max);
  } catch (const ApiError& e) {
    EXPECT_EQ(e.status, 429);
    return false;
  }
  return true;
}

TEST(ModelSlots, OneClientMayHaveAll) {
  ModelSlots slots;
  const auto all = slots.reserve(1, 100, 100);
  EXPECT_FALSE(is_admitted(slots, 1, 1, 100));
}

TEST(ModelSlots, AreFreeAgainAfterTheLastCopyOfAHandle) {
  ModelSlots slots;
  auto first = slots.reserve(1, 100, 100);
  auto second = first;
  first.reset();
  EXPECT_FALSE(is_admitted(slots, 1, 1, 100));
  second.reset();
  EXPECT_TRUE(is_admitted(slots, 1, 100, 100));
}

TEST(ModelSlots, AcceptALargerRequestWhenNoneIsTaken) {
  ModelSlots slots;
  EXPECT_TRUE(is_admitted(slots, 1, 101, 100));
  const auto one = slots.reserve(1, 1, 100);
  EXPECT_FALSE(is_admitted(slots, 1, 101, 100));
}

TEST(ModelSlots, AdmitOtherClientsUpToTheirShareWhenFull) {
  ModelSlots slots;
  const auto all = slots.reserve(1, 640, 640);
  const auto share = slots.reserve(2, 10, 640);
  EXPECT_FALSE(is_admitted(slots, 2, 1, 640));
  EXPECT_FALSE(is_admitted(slots, 3, 11, 640));
  EXPECT_TRUE(is_admitted(slots, 3, 10, 640));
}

TEST(ModelSlots, ShareEvenlyAmongManyClients) {
  ModelSlots slots;
  Handles handles = {slots.reserve(0, 640, 640)};
  for (std::uint64_t client = 1; client < 160; ++client)
    handles.push_back(slots.reserve(client, 1, 640));
  // 640 / 161 clients.
  EXPECT_FALSE(is_admitted(slots, 1000, 4, 640));
  EXPECT_TRUE(is_admitted(slots, 1000, 3, 640));
}

TEST(ModelSlots, OfFewHaveNoShares) {
  ModelSlots slots;
  const auto all = slots.reserve(1, 4, 4);
  EXPECT_FALSE(is_admitted(slots, 2, 1, 4));
}

TEST(ModelSlots, HandlesMayOutliveThem) {
  std::shared_ptr<void> handle;
  {
    ModelSlots slots;
    handle = slots.reserve(1, 1, 1);
  }
  handle.reset();
}

}  // namespace
}  // namespace graft::server
