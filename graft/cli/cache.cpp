// graft cache: the KV cache blocks on disk that --kv-disk keeps.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "graft/base/text/json.h"
#include "graft/base/text/units.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/tier_options.h"
#include "graft/engine/tiers/block_key.h"
#include "graft/engine/tiers/disk_folder.h"
#include "graft/engine/tiers/tier_entry.h"

namespace graft::cli {
namespace {

struct CacheOptions {
  TierOptions tiers;
  bool json = false;

  std::filesystem::path dir() const { return tiers.folder(); }
};

std::uint64_t total_bytes(const std::vector<engine::DiskFile>& files) {
  std::uint64_t bytes = 0;
  for (const engine::DiskFile& file : files)
    bytes += file.bytes;
  return bytes;
}

std::string time_text(std::int64_t ns) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}",
                     fmt::gmtime(static_cast<std::time_t>(ns / 1'000'000'000)));
}

void print_cache_json(const Json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void list_blocks(const CacheOptions& options) {
  std::vector<engine::DiskFile> files = engine::scan_folder(options.dir());
  std::ranges::sort(files, std::greater(), &engine::DiskFile::used_ns);
  if (options.json) {
    Json list = Json::array();
    for (const engine::DiskFile& file : files) {
      list.push_back({{"key", engine::to_hex(file.key)},
                      {"bytes", file.bytes},
                      {"used", time_text(file.used_ns)}});
    }
    const Json report = {{"dir", options.dir().string()},
                         {"bytes", total_bytes(files)},
                         {"blocks", std::move(list)}};
    print_cache_json(report);
    return;
  }
  for (const engine::DiskFile& file : files) {
    fmt::print("{}  {:>10}  {}\n", engine::to_hex(file.key), bytes_text(file.bytes),
               time_text(file.used_ns));
  }
  fmt::print("{}: {} blocks, {}\n", options.dir().string(), files.size(),
             bytes_text(total_bytes(files)));
}

// Files that are not blocks stay.
void clear_blocks(const CacheOptions& options) {
  const std::vector<engine::DiskFile> files = engine::scan_folder(options.dir());
  std::size_t num_removed = 0;
  std::uint64_t bytes = 0;
  for (const engine::DiskFile& file : files) {
    std::error_code error;
    if (!std::filesystem::remove(engine::block_path(options.dir(), file.key), error)) continue;
    ++num_removed;
    bytes += file.bytes;
  }
  if (options.json) {
    return print_cache_json({{"dir", options.dir().string()},
                             {"blocks", files.size()},
                             {"removed", num_removed},
                             {"bytes", bytes}});
  }
  fmt::print("{}: removed {} of {} blocks, {}\n", options.dir().string(), num_removed, files.size(),
             bytes_text(bytes));
}

// Exit code 1: a block is damaged or cannot be read. A process that uses the folder may remove
// blocks meanwhile.
int verify_blocks(const CacheOptions& options) {
  const std::vector<engine::DiskFile> files = engine::scan_folder(options.dir());
  std::size_t num_good = 0;
  std::vector<std::string> errors;
  for (const engine::DiskFile& file : files) {
    engine::TierEntry entry;
    std::string error;
    const engine::ReadResult result = engine::check_block(options.dir(), file.key, entry, error);
    if (result == engine::ReadResult::Missing) continue;
    if (result == engine::ReadResult::Ok) {
      ++num_good;
      continue;
    }
    errors.push_back(error);
    if (!options.json) fmt::print("{}\n", error);
  }
  if (options.json) {
    print_cache_json({{"dir", options.dir().string()}, {"intact", num_good}, {"errors", errors}});
  } else {
    fmt::print("{}: {} blocks are intact, {} are not\n", options.dir().string(), num_good,
               errors.size());
  }
  return errors.empty() ? 0 : 1;
}

}  // namespace

void add_cache(Command& app) {
  Command* cache =
      app.add_subcommand("cache", "KV cache blocks on disk, which `serve --kv-disk` keeps");
  cache->require_subcommand(1);
  const auto add = [&](const char* name, const char* help) {
    auto options = std::make_shared<CacheOptions>();
    Command* command = cache->add_subcommand(name, help);
    TierOptions::add_dir_to(*command, options->tiers.dir);
    command->add_flag("--json", options->json, "Print JSON");
    return std::pair(command, options);
  };
  const auto [list, list_options] = add("ls", "List the blocks, the last used first");
  list->callback([options = list_options] { list_blocks(*options); });
  const auto [clear, clear_options] = add("clear", "Remove all blocks");
  clear->callback([options = clear_options] { clear_blocks(*options); });
  const auto [verify, verify_options] = add("verify", "Read all blocks and check their checksums");
  verify->callback([options = verify_options] { exit_with(verify_blocks(*options)); });
}

}  // namespace graft::cli
