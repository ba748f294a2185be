// Models with a cache file of packed weights: the first start writes it, later ones map it, and the
// logits are bit-identical whatever happened to the file.

#include "graft/packing/packed_cache.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "graft/models/generate.h"
#include "graft/models/open_model.h"
#include "graft/testing/formats.h"

namespace graft::models {
namespace {

namespace fs = std::filesystem;
using formats::test::Bytes;

struct Start {
  std::vector<float> logits;
  std::vector<std::string> warnings;
};

class PackedCacheTest : public testing::Test {
 protected:
  // Sprout: experts, shared experts, and linear modules of several types.
  PackedCacheTest() {
    fs::copy_file(fs::path(GRAFT_SOURCE_DIR) / "models/sprout/sprout-Q6_K.gguf", model_);
  }

  Start start(bool with_cache = true,
              std::size_t num_threads = 2,
              const std::string& rules = "[]") {
    Start result;
    OpenOptions options;
    options.rules = rules;
    options.num_threads = num_threads;
    options.load.repack_cache = with_cache;
    options.load.on_warning = [&](const std::string& line) { result.warnings.push_back(line); };
    OpenModel open(model_, options);
    const TokenIds prompt = {5, 17, 250, 9, 31};
    result.logits = run_prompts(open.model(), {&prompt, 1}).front().logits;
    return result;
  }

  // Warns about `part` only, computes the right logits, and leaves a valid file.
  void expect_repaired(const std::string& part, const std::vector<float>& want) {
    const Start repaired = start();
    ASSERT_EQ(repaired.warnings.size(), 1U) << part;
    EXPECT_NE(repaired.warnings[0].find(part), std::string::npos) << repaired.warnings[0];
    EXPECT_EQ(repaired.warnings[0].find('\n'), std::string::npos) << repaired.warnings[0];
    EXPECT_TRUE(is_same(repaired.logits, want)) << part;
    const Start again = start();
    EXPECT_TRUE(again.warnings.empty()) << again.warnings[0];
    EXPECT_TRUE(is_same(again.logits, want)) << part;
  }

  static bool is_same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  TempDir folder_;
  fs::path model_ = folder_ / "model.gguf";
  fs::path cache_ = folder_ / "model.gguf.graft-packed";
};

TEST_F(PackedCacheTest, SecondStartMapsTheFileOfTheFirst) {
  const Start without = start(false);
  EXPECT_FALSE(fs::exists(cache_));
  const Start first = start();
  ASSERT_TRUE(fs::exists(cache_));
  EXPECT_EQ(formats::test::names_in(folder_).size(), 2U);  // nothing else is left behind
  const auto written = fs::last_write_time(cache_);
  const Bytes bytes = formats::test::read_file(cache_);
  const Start second = start();
  EXPECT_EQ(fs::last_write_time(cache_), written);
  EXPECT_TRUE(first.warnings.empty() && second.warnings.empty());
  EXPECT_TRUE(is_same(first.logits, without.logits));
  EXPECT_TRUE(is_same(second.logits, without.logits));

  fs::remove(cache_);
  start(true, 1);
  EXPECT_TRUE(formats::test::read_file(cache_) == bytes) << "depends on the number of threads";
}

TEST_F(PackedCacheTest, MapsThePanelsOfTheFile) {
  start();
  const auto source = open_checkpoint(model_);
  EXPECT_EQ(packing::PackedCache::path_for(*source), cache_);
  packing::PackedCache cache(*source, nullptr, {});
  const MappedFile file(cache_);
  const packing::PackedFile parsed = packing::parse_packed(file.bytes(), "file");
  ASSERT_GT(parsed.tensors.size(), 100U);
  for (const packing::PackedTensor& tensor : parsed.tensors) {
    packing::StoredMatrix matrix = {
        .name = tensor.name, .dtype = tensor.dtype, .rows = tensor.rows, .cols = tensor.cols};
    const SharedBytes found = cache.find(matrix);
    EXPECT_TRUE(std::ranges::equal(found.bytes, tensor.bytes)) << tensor.name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found.bytes.data()) % 64, 0U) << tensor.name;
    matrix.rows += 1;
    EXPECT_TRUE(cache.find(matrix).bytes.empty()) << tensor.name;
  }
  EXPECT_TRUE(
      cache.find({.name = "absent", .dtype = DType::Q6_K, .rows = 16, .cols = 256}).bytes.empty());
}

TEST_F(PackedCacheTest, DetectsAChangedModel) {
  const std::vector<float> want = start().logits;
  fs::last_write_time(model_, fs::last_write_time(model_) + std::chrono::nanoseconds(1000));
  expect_repaired("belongs to another model", want);
}

TEST_F(PackedCacheTest, TruncatedAndDamagedFilesArePackedAgain) {
  const std::vector<float> want = start().logits;
  const Bytes good = formats::test::read_file(cache_);
  const auto damaged_at = [&](std::size_t at) {
    Bytes bytes = good;
    bytes[at] ^= std::byte{0x20};
    return bytes;
  };
  const auto expect = [&](const std::string& part, std::span<const std::byte> bytes) {
    fs::remove(cache_);
    formats::test::write_file(cache_, bytes);
    expect_repaired(part, want);
    EXPECT_TRUE(formats::test::read_file(cache_) == good) << part;
  };
  expect("the file is empty", {});
  expect("truncated", std::span(good).first(20));
  expect("table: truncated", std::span(good).first(1000));
  expect("truncated", std::span(good).first(good.size() / 2));
  expect("not a packed weights file", damaged_at(3));
  expect("format", damaged_at(8));
  expect("layout", damaged_at(12));
  expect("table: damaged", damaged_at(16));   // the fingerprint
  expect("table: damaged", damaged_at(200));  // a name
  expect("damaged: the checksum of its", damaged_at(good.size() / 2));
}

TEST_F(PackedCacheTest, KeepsPanelsOfOtherRules) {
  const std::string no_experts =
      "- {match: {role: experts}, replace: {class: default, kwargs: {repack: false}}}\n";
  start(true, 2, no_experts);
  const auto small = fs::file_size(cache_);
  const Start all = start();
  EXPECT_TRUE(all.warnings.empty());
  const auto large = fs::file_size(cache_);
  EXPECT_GT(large, small);
  start(true, 2, no_experts);
  EXPECT_EQ(fs::file_size(cache_), large);
  EXPECT_TRUE(is_same(start().logits, all.logits));
}

TEST_F(PackedCacheTest, UnwritableFolderIsAWarning) {
  if (::geteuid() == 0) {
    // root may write everywhere; a folder at the file's path fails for root too.
    fs::create_directory(cache_);
    fs::create_directory(cache_ / "inside");
  } else {
    fs::permissions(folder_.path(), fs::perms::owner_read | fs::perms::owner_exec);
  }
  const Start run = start();
  ASSERT_FALSE(run.warnings.empty());
  EXPECT_NE(run.warnings.back().find("packed again at the next start"), std::string::npos);
  EXPECT_TRUE(is_same(run.logits, start(false).logits));
  fs::permissions(folder_.path(), fs::perms::owner_all);
  EXPECT_EQ(formats::test::names_in(folder_).size(), ::geteuid() == 0 ? 2U : 1U);
}

TEST_F(PackedCacheTest, FullDiskIsAWarning) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 10'000'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Start run = start();
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_EQ(run.warnings.size(), 1U);
  EXPECT_NE(run.warnings[0].find("writing failed"), std::string::npos) << run.warnings[0];
  EXPECT_EQ(formats::test::names_in(folder_).size(), 1U);
  EXPECT_TRUE(is_same(run.logits, start(false).logits));
}

}  // namespace
}  // namespace graft::models
