#include "graft/engine/snapshot.h"

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/system/temp_dir.h"
#include "graft/engine/engine.h"
#include "graft/testing/golden.h"

namespace graft::engine {
namespace {

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// What a file with a right checksum may say.
TEST(Snapshot, ForgedFieldsAreRefused) {
  const TempDir folder;
  const auto path = folder / "saved";
  models::OpenModel open(golden_checkpoint("llama"));
  Engine engine(open, nullptr, {.kvcache_block_size = 4, .num_kvcache_blocks = 50});
  Request request = {.prompt = std::vector<TokenId>(21, 7)};
  request.params.ignore_eos = true;
  const RequestId id = engine.add(request);
  engine.step();
  engine.save({.request = id, .sample = 0}, path);
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const Snapshot saved = read_snapshot(path);
  ASSERT_EQ(saved.num_computed, 21);
  EXPECT_EQ(error_of([&] { engine.restore(saved, "saved"); }), "accepted");

  const auto expect_refused = [&](const std::function<void(Snapshot&)>& forge,
                                  const std::string& reason) {
    Snapshot forged = saved;
    forge(forged);
    const std::string error = error_of([&] {
      write_snapshot(path, forged, 1, [&](std::int64_t) { return std::span(forged.blocks); });
      engine.restore(path);
    });
    EXPECT_NE(error.find(reason), std::string::npos) << error;
  };
  const std::string inconsistent = "damaged: header is inconsistent";
  expect_refused([](Snapshot& s) { s.params.n = 2; }, inconsistent);
  expect_refused([](Snapshot& s) { s.num_prompt = 0; }, inconsistent);
  expect_refused([](Snapshot& s) { s.num_prompt = 23; }, inconsistent);
  expect_refused([](Snapshot& s) { s.num_computed = 22; }, inconsistent);
  expect_refused([](Snapshot& s) { s.num_computed = -1; }, inconsistent);
  expect_refused([](Snapshot& s) { s.block_tokens = 0; }, inconsistent);
  expect_refused([](Snapshot& s) { s.block_tokens = INT64_MAX; }, inconsistent);
  expect_refused([](Snapshot& s) { s.blocks.pop_back(); }, inconsistent);
  expect_refused([](Snapshot& s) { s.block_bytes += 8; }, inconsistent);
  expect_refused([](Snapshot& s) { s.first_block = -1; }, inconsistent);
  expect_refused([](Snapshot& s) { s.first_block = 7; }, inconsistent);
  expect_refused(
      [](Snapshot& s) {
        s.first_block = 1;
        s.blocks.resize(s.blocks.size() - s.block_bytes);
      },
      "begins with block 1 of 21 tokens");
  expect_refused(
      [](Snapshot& s) {
        s.block_bytes /= 2;
        s.blocks.resize(s.blocks.size() / 2);
      },
      "damaged: blocks of");
  expect_refused([](Snapshot& s) { s.uses_long_rope = true; }, "damaged: the model has no long");
  expect_refused([](Snapshot& s) { s.state.resize(8); }, "damaged: recurrent states of 8 bytes");
  expect_refused([](Snapshot& s) { s.tokens[3] = 1'000'000; }, "out of range");
  expect_refused([](Snapshot& s) { s.params.temperature = -1; }, "temperature");
  expect_refused([](Snapshot& s) { ++s.model; }, "another model");
  EXPECT_EQ(error_of([&] { parse_snapshot({}, "file"); }), "file: not a saved sequence");
}

}  // namespace
}  // namespace graft::engine
