// Models with a cache file of packed weights: the first start writes it, later ones map it, and the
// logits are bit-identical whatever happened to the file.

#include "graft/packing/packed_cache.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
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

class PackedCacheTest : public ::testing::Test {
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

  // Name and checksum; a repaired file may have another order.
  static std::map<std::string, std::uint64_t> tensors_in(const Bytes& bytes) {
    std::map<std::string, std::uint64_t> hashes;
    for (const packing::PackedTensor& tensor : packing::parse_packed(bytes, "file").tensors)
      hashes[tensor.name] = packing::hash_panels(tensor.bytes, nullptr);
    return hashes;
  }

  static bool is_same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  TempDir folder_;
  fs::path model_ = folder_ / "model.gguf";
  fs::path cache_ = folder_ / "model.gguf.graft-packed";
};

// With less memory than the weights: they stay in the file.
class FromDiskTest : public PackedCacheTest {
 protected:
  Start start_on_disk(const std::string& rules = "[]") {
    read_ahead_.clear();
    Start result;
    OpenOptions options;
    options.rules = rules;
    options.num_threads = 2;
    options.memory = kMemory;
    options.load.repack_cache = true;
    options.load.on_warning = [&](const std::string& line) { result.warnings.push_back(line); };
    options.load.read_ahead = [&](const std::string& name, std::span<const std::byte> bytes) {
      read_ahead_.push_back(name);
      packing::system_read_ahead()(name, bytes);
    };
    OpenModel open(model_, options);
    EXPECT_TRUE(open.is_from_disk());
    const TokenIds prompt = {5, 17, 250, 9, 31};
    result.logits = run_prompts(open.model(), {&prompt, 1}).front().logits;
    return result;
  }
  std::string error_with(std::uint64_t memory, bool with_cache) {
    OpenOptions options;
    options.num_threads = 1;
    options.memory = memory;
    options.load.repack_cache = with_cache;
    return formats::test::error_of([&] { OpenModel(model_, options); });
  }
  std::size_t position_of(const std::string& part) const {
    const auto found = std::ranges::find_if(
        read_ahead_, [&](const std::string& name) { return name.find(part) != std::string::npos; });
    return static_cast<std::size_t>(found - read_ahead_.begin());
  }

  static constexpr std::uint64_t kMemory = std::uint64_t{16} << 20U;  // the weights: 39 MB
  std::vector<std::string> read_ahead_;
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
    const SharedBytes found = cache.find(matrix).panels;
    ASSERT_EQ(found.bytes.size(), tensor.bytes.size()) << tensor.name;
    EXPECT_EQ(std::memcmp(found.bytes.data(), tensor.bytes.data(), tensor.bytes.size()), 0)
        << tensor.name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found.bytes.data()) % 64, 0U) << tensor.name;
    matrix.rows += 1;
    EXPECT_TRUE(cache.find(matrix).panels.bytes.empty()) << tensor.name;
  }
  EXPECT_TRUE(cache.find({.name = "absent", .dtype = DType::Q6_K, .rows = 16, .cols = 256})
                  .panels.bytes.empty());
}

TEST_F(PackedCacheTest, DetectsAChangedModel) {
  const std::vector<float> want = start().logits;
  fs::last_write_time(model_, fs::last_write_time(model_) + std::chrono::nanoseconds(1000));
  expect_repaired("belongs to another model", want);
}

class ChangedCacheTest : public PackedCacheTest {
 protected:
  void expect(const std::string& part, std::span<const std::byte> bytes) {
    fs::remove(cache_);
    formats::test::write_file(cache_, bytes);
    expect_repaired(part, want_);
    EXPECT_EQ(tensors_in(formats::test::read_file(cache_)), tensors_in(good_)) << part;
  }

  std::vector<float> want_ = start().logits;
  Bytes good_ = formats::test::read_file(cache_);
};

TEST_F(ChangedCacheTest, TruncatedFilesArePackedAgain) {
  expect("the file is empty", {});
  expect("truncated", std::span(good_).first(20));
  expect("table: truncated", std::span(good_).first(good_.size() / 2));
  expect("table: truncated", std::span(good_).first(good_.size() - 1));
}

TEST_F(ChangedCacheTest, DamagedFilesArePackedAgain) {
  const auto damaged_at = [&](std::size_t at) {
    Bytes bytes = good_;
    bytes[at] ^= std::byte{0x20};
    return bytes;
  };
  expect("not a packed weights file", damaged_at(3));
  expect("format", damaged_at(8));
  expect("layout", damaged_at(12));
  expect("table: damaged", damaged_at(16));  // the fingerprint
  expect("table: damaged", damaged_at(good_.size() - 200));
  expect("damaged: the checksum of its", damaged_at(good_.size() / 2));
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

TEST_F(FromDiskTest, LogitsAreThoseOfTheModelInMemory) {
  const Start in_memory = start(false);
  const Start written = start_on_disk();  // writes the file
  ASSERT_TRUE(fs::exists(cache_));
  const Start mapped = start_on_disk();
  EXPECT_TRUE(is_same(written.logits, in_memory.logits));
  EXPECT_TRUE(is_same(mapped.logits, in_memory.logits));
  ASSERT_EQ(mapped.warnings.size(), 1U);
  EXPECT_NE(mapped.warnings[0].find("read from disk"), std::string::npos) << mapped.warnings[0];
  EXPECT_EQ(formats::test::names_in(folder_).size(), 2U);
}

TEST_F(FromDiskTest, WritesTheFileOfAModelInMemory) {
  start_on_disk();
  const Bytes streamed = formats::test::read_file(cache_);
  fs::remove(cache_);
  start();
  EXPECT_TRUE(formats::test::read_file(cache_) == streamed);
}

TEST_F(FromDiskTest, ReadsTheNextLayerAndTheChosenExpertsAhead) {
  start_on_disk();
  const std::size_t second = position_of("layers.1.self_attn.o_proj");
  ASSERT_LT(second, read_ahead_.size());
  EXPECT_LT(position_of("layers.0.self_attn.o_proj"), second);
  // Layer 1 is requested before layer 0 has routed, and before the experts of layer 1.
  EXPECT_LT(second, position_of("layers.1.mlp.experts."));
  EXPECT_LT(position_of("layers.1.mlp.experts."), position_of("layers.2.mlp.experts."));
  EXPECT_LT(position_of("lm_head"), read_ahead_.size());
  // Gate, up and down of every expert of a layer once; not those that no token uses.
  const auto count = std::ranges::count_if(read_ahead_, [](const std::string& name) {
    return name.find("layers.1.mlp.experts.") != std::string::npos;
  });
  EXPECT_EQ(count % 3, 0);
  EXPECT_GT(count, 0);
}

TEST_F(FromDiskTest, NeedsTheFileOrTheOption) {
  const std::string refused = error_with(kMemory, false);
  EXPECT_NE(refused.find("16.0 MiB may be used"), std::string::npos) << refused;
  EXPECT_NE(refused.find("--repack-cache"), std::string::npos) << refused;
  EXPECT_FALSE(fs::exists(cache_));
  start();
  EXPECT_EQ(error_with(kMemory, false), "");  // the file exists
}

TEST_F(FromDiskTest, SomeMemoryIsAlwaysNeeded) {
  const std::string refused = error_with(1000, true);
  EXPECT_NE(refused.find("cannot stay on disk"), std::string::npos) << refused;
}

TEST_F(FromDiskTest, DamagedWeightsAreNeverUsed) {
  start();
  Bytes bytes = formats::test::read_file(cache_);
  const packing::PackedFile file = packing::parse_packed(bytes, "file");
  for (const char* part : {"layers.1.self_attn.o_proj", "lm_head"}) {
    const auto found = std::ranges::find_if(file.tensors, [&](const packing::PackedTensor& tensor) {
      return tensor.name.find(part) != std::string::npos;
    });
    ASSERT_NE(found, file.tensors.end());
    const auto at = static_cast<std::size_t>(found->bytes.data() - bytes.data()) + 100;
    bytes[at] ^= std::byte{1};
    fs::remove(cache_);
    formats::test::write_file(cache_, bytes);
    const std::string error = formats::test::error_of([&] { start_on_disk(); });
    EXPECT_NE(error.find(part), std::string::npos) << error;
    EXPECT_NE(error.find("damaged"), std::string::npos) << error;
    bytes[at] ^= std::byte{1};
  }
}

TEST_F(FromDiskTest, DamagedExpertsAreNeverUsed) {
  start();
  Bytes bytes = formats::test::read_file(cache_);
  const packing::PackedFile file = packing::parse_packed(bytes, "file");
  for (const packing::PackedTensor& tensor : file.tensors) {
    if (tensor.name.find(".experts.") == std::string::npos) continue;
    bytes[static_cast<std::size_t>(tensor.bytes.data() - bytes.data()) + 100] ^= std::byte{1};
  }
  fs::remove(cache_);
  formats::test::write_file(cache_, bytes);
  const std::string error = formats::test::error_of([&] { start_on_disk(); });
  EXPECT_NE(error.find(".experts."), std::string::npos) << error;
  EXPECT_NE(error.find("damaged"), std::string::npos) << error;
}

}  // namespace
}  // namespace graft::models
