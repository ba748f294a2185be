#include "graft/cli/options/tier_options.h"

#include "graft/base/error.h"
#include "graft/cli/options/rule_options.h"
#include "graft/cli/options/settings.h"

namespace graft::cli {

void TierOptions::add_dir_to(Command& command, std::string& dir) {
  command
      .add_option("--kv-dir", dir,
                  "Folder of the KV cache blocks on disk (default: ~/.cache/graft/kv)")
      ->option_text("DIR");
}

void TierOptions::add_to(Command& command) {
  command
      .add_option("--kv-host", host,
                  "Host memory for KV cache blocks of earlier prompts, per model (default: 0)")
      ->option_text("SIZE");
  command
      .add_option("--kv-disk", disk,
                  "Disk space for KV cache blocks of earlier prompts, which a restart keeps "
                  "(default: 0)")
      ->option_text("SIZE");
  add_dir_to(command, dir);
}

std::filesystem::path TierOptions::folder() const {
  if (!dir.empty()) return dir;
  const std::filesystem::path cache = user_folder("XDG_CACHE_HOME", ".cache");
  if (cache.empty()) fail("--kv-dir: no default without $HOME, pass a folder");
  return cache / "kv";
}

void TierOptions::apply_to(api::EngineConfig& config) const {
  config.kv_host_bytes = host.empty() ? 0 : parse_memory("--kv-host", host);
  config.kv_disk_bytes = disk.empty() ? 0 : parse_memory("--kv-disk", disk);
  if (config.kv_disk_bytes > 0) config.kv_dir = folder();
}

}  // namespace graft::cli
