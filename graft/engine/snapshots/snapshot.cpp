#include "graft/engine/snapshots/snapshot.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <system_error>

#include <unistd.h>
#include <xxhash.h>

#include "graft/base/error.h"
#include "graft/base/system/mapped_file.h"
#include "graft/base/text/str.h"
#include "graft/engine/params_json.h"
#include "graft/version.h"

namespace graft::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSnapshotMagic = "GRAFTSEQ";
constexpr std::int64_t kMaxBlockTokens = 65536;  // EngineConfig::kvcache_block_size
// Magic, header size and checksum.
constexpr std::size_t kFixedBytes = kSnapshotMagic.size() + 2 * sizeof(std::uint64_t);

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Beside `path`. Two processes, or two models of one, may write to the same path.
fs::path partial_of(const fs::path& path) {
  static std::atomic<std::uint64_t> count = 0;
  return path.string() + str(".", ::getpid(), "-", count++, ".partial");
}

// Writes a file beside path with its checksum; commit() renames it to path, the destructor removes
// it otherwise.
class Writer {
 public:
  explicit Writer(const fs::path& path)
      : path_(path), partial_(partial_of(path)), out_(partial_, std::ios::binary) {
    if (!out_) fail(path_.string(), ": cannot write");
    std::error_code error;
    fs::permissions(partial_, fs::perms::owner_read | fs::perms::owner_write, error);
    XXH3_64bits_reset(state_.get());
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() {
    if (is_committed_) return;
    out_.close();
    std::error_code ignored;
    fs::remove(partial_, ignored);
  }

  void append(std::span<const std::byte> bytes) {
    XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
    out_.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  void append(std::uint64_t value) { append(std::as_bytes(std::span(&value, 1))); }

  void commit() {
    append(XXH3_64bits_digest(state_.get()));
    out_.close();
    if (!out_) fail(path_.string(), ": cannot write, is the disk full?");
    std::error_code error;
    fs::rename(partial_, path_, error);
    if (error) fail(path_.string(), ": cannot write: ", error.message());
    is_committed_ = true;
  }

 private:
  fs::path path_;
  fs::path partial_;
  std::ofstream out_;
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_{XXH3_createState(),
                                                                  XXH3_freeState};
  bool is_committed_ = false;
};

Json images_json(const Snapshot& snapshot) {
  Json images = Json::array();
  for (const SequenceImage& image : snapshot.images) {
    const vision::PreparedImage& prepared = *image.image;
    images.push_back({{"first", image.first},
                      {"count", image.count},
                      {"width", prepared.original.width},
                      {"height", prepared.original.height},
                      {"tile_size", prepared.tile_size},
                      {"num_tiles", prepared.num_tiles},
                      {"grid_width", prepared.grid.width},
                      {"grid_height", prepared.grid.height},
                      {"hash_high", prepared.hash.high},
                      {"hash_low", prepared.hash.low}});
  }
  return images;
}

// Reads an image and takes its pixels from the front of `stored`.
SequenceImage parse_image(const Json& json,
                          const std::string& where,
                          std::span<const std::byte>& stored) {
  auto prepared = std::make_shared<vision::PreparedImage>();
  json.at("width").get_to(prepared->original.width);
  json.at("height").get_to(prepared->original.height);
  json.at("tile_size").get_to(prepared->tile_size);
  json.at("num_tiles").get_to(prepared->num_tiles);
  json.at("grid_width").get_to(prepared->grid.width);
  json.at("grid_height").get_to(prepared->grid.height);
  json.at("hash_high").get_to(prepared->hash.high);
  json.at("hash_low").get_to(prepared->hash.low);
  const auto in = [](std::int64_t value, std::int64_t low, std::int64_t high) {
    return value >= low && value <= high;
  };
  constexpr std::int64_t kMaxSide = std::int64_t{1} << 30;
  const bool is_sane =
      in(prepared->original.width, 1, kMaxSide) && in(prepared->original.height, 1, kMaxSide) &&
      in(prepared->tile_size, 1, 1 << 14) && in(prepared->num_tiles, 1, 1 << 10) &&
      in(prepared->grid.width, 0, 1 << 10) && in(prepared->grid.height, 0, 1 << 10);
  if (!is_sane) fail(where, ": damaged: an image has invalid sizes");
  const auto num_elems = static_cast<std::size_t>(prepared->num_tiles * prepared->tile_elems());
  if (stored.size() / sizeof(float) < num_elems) fail(where, ": damaged: pixels are truncated");
  prepared->pixels.resize(num_elems);
  std::memcpy(prepared->pixels.data(), stored.data(), num_elems * sizeof(float));
  stored = stored.subspan(num_elems * sizeof(float));
  return {.first = json.at("first").get<std::int64_t>(),
          .count = json.at("count").get<std::int64_t>(),
          .image = std::move(prepared)};
}

Json header_of(const Snapshot& snapshot) {
  return {{"graft", GRAFT_VERSION},
          {"model", snapshot.model},
          {"cache_form", snapshot.cache_form},
          {"block_tokens", snapshot.block_tokens},
          {"block_bytes", snapshot.block_bytes},
          {"first_block", snapshot.first_block},
          {"state_bytes", snapshot.state.size()},
          {"params", to_json(snapshot.params)},
          {"seed", snapshot.seed},
          {"priority", snapshot.priority},
          {"cache_salt", snapshot.cache_salt},
          {"uses_long_rope", snapshot.uses_long_rope},
          {"adapter_name", snapshot.adapter_name},
          {"adapter", snapshot.adapter},
          {"num_prompt", snapshot.num_prompt},
          {"num_computed", snapshot.num_computed},
          {"tokens", snapshot.tokens},
          {"images", images_json(snapshot)}};
}

std::uint64_t u64_at(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

Snapshot parse_header(const Json& header, const std::string& where) {
  Snapshot snapshot;
  header.at("model").get_to(snapshot.model);
  header.at("cache_form").get_to(snapshot.cache_form);
  header.at("block_tokens").get_to(snapshot.block_tokens);
  header.at("block_bytes").get_to(snapshot.block_bytes);
  header.at("first_block").get_to(snapshot.first_block);
  try {
    snapshot.params = params_from_json(header.at("params"));
  } catch (const Error& error) {
    fail(where, ": damaged: ", error.what());
  }
  header.at("seed").get_to(snapshot.seed);
  header.at("priority").get_to(snapshot.priority);
  header.at("cache_salt").get_to(snapshot.cache_salt);
  header.at("uses_long_rope").get_to(snapshot.uses_long_rope);
  header.at("adapter_name").get_to(snapshot.adapter_name);
  header.at("adapter").get_to(snapshot.adapter);
  header.at("num_prompt").get_to(snapshot.num_prompt);
  header.at("num_computed").get_to(snapshot.num_computed);
  header.at("tokens").get_to(snapshot.tokens);
  return snapshot;
}

bool is_consistent(const Snapshot& snapshot, std::size_t num_bytes) {
  const auto num_tokens = static_cast<std::int64_t>(snapshot.tokens.size());
  if (snapshot.block_tokens < 1 || snapshot.block_tokens > kMaxBlockTokens ||
      snapshot.num_prompt < 1 || snapshot.num_prompt > num_tokens || snapshot.num_computed < 0 ||
      snapshot.num_computed >= num_tokens || snapshot.params.n != 1)
    return false;
  const std::int64_t end_block =
      (snapshot.num_computed + snapshot.block_tokens - 1) / snapshot.block_tokens;
  if (snapshot.first_block < 0 || snapshot.first_block > end_block) return false;
  const std::int64_t num_blocks = end_block - snapshot.first_block;
  return num_blocks == 0
             ? num_bytes == 0
             : num_bytes % static_cast<std::size_t>(num_blocks) == 0 &&
                   num_bytes / static_cast<std::size_t>(num_blocks) == snapshot.block_bytes;
}

}  // namespace

void write_snapshot(const fs::path& path,
                    const Snapshot& snapshot,
                    std::int64_t num_blocks,
                    const std::function<std::span<const std::byte>(std::int64_t)>& block) {
  Writer writer(path);
  const std::string header = header_of(snapshot).dump();
  writer.append(bytes_of(kSnapshotMagic));
  writer.append(header.size());
  writer.append(bytes_of(header));
  writer.append(snapshot.state);
  for (const SequenceImage& image : snapshot.images)
    writer.append(std::as_bytes(std::span(image.image->pixels)));
  for (std::int64_t i = 0; i < num_blocks; ++i)
    writer.append(block(i));
  writer.commit();
}

Snapshot read_snapshot(const fs::path& path) {
  const MappedFile file(path);
  return parse_snapshot(file.bytes(), path.string());
}

Snapshot parse_snapshot(std::span<const std::byte> bytes, const std::string& where) {
  if (bytes.size() < kFixedBytes ||
      std::memcmp(bytes.data(), kSnapshotMagic.data(), kSnapshotMagic.size()) != 0)
    fail(where, ": not a saved sequence");
  const auto covered = bytes.first(bytes.size() - sizeof(std::uint64_t));
  if (XXH3_64bits(covered.data(), covered.size()) != u64_at(bytes, covered.size()))
    fail(where, ": damaged: checksum mismatch over ", bytes.size(), " bytes");
  const std::uint64_t header_bytes = u64_at(bytes, kSnapshotMagic.size());
  if (header_bytes > bytes.size() - kFixedBytes) fail(where, ": damaged: header is truncated");
  const auto text = bytes.subspan(kSnapshotMagic.size() + sizeof(std::uint64_t),
                                  static_cast<std::size_t>(header_bytes));
  try {
    const Json header =
        parse_json({reinterpret_cast<const char*>(text.data()), text.size()}, where);
    const auto version = header.at("graft").get<std::string>();
    if (version != GRAFT_VERSION)
      fail(where, ": saved by graft ", version, ", this is graft ", GRAFT_VERSION);
    Snapshot snapshot = parse_header(header, where);
    const auto stored =
        covered.subspan(kSnapshotMagic.size() + sizeof(std::uint64_t) + text.size());
    const auto state_bytes = header.at("state_bytes").get<std::size_t>();
    if (state_bytes > stored.size()) fail(where, ": damaged: recurrent states are truncated");
    const auto state = stored.first(state_bytes);
    snapshot.state.assign(state.begin(), state.end());
    std::span<const std::byte> blocks = stored.subspan(state_bytes);
    for (const Json& image : header.at("images"))
      snapshot.images.push_back(parse_image(image, where, blocks));
    if (!is_consistent(snapshot, blocks.size())) fail(where, ": damaged: header is inconsistent");
    snapshot.blocks.assign(blocks.begin(), blocks.end());
    return snapshot;
  } catch (const Json::exception& error) {
    fail(where, ": not a saved sequence: ", error.what());
  }
}

}  // namespace graft::engine
