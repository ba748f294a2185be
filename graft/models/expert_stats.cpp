#include "graft/models/expert_stats.h"

#include <mutex>
#include <span>

#include "graft/base/error.h"
#include "graft/base/system/new_file.h"
#include "graft/base/text/json.h"

namespace graft::models {
namespace {

constexpr int kVersion = 1;
// A file of 100 layers with 1024 experts has about 1 MB.
constexpr std::size_t kMaxBytes = std::size_t{64} << 20U;

ExpertPairs read_pairs(const Json& modules, const std::string& where) {
  if (!modules.is_object()) fail(where, ": a model must be an object");
  ExpertPairs pairs;
  for (const auto& [module, counts] : modules.items()) {
    if (!counts.is_array()) fail(where, ": pairs of ", module, " must be an array");
    std::vector<std::uint64_t>& row = pairs[module];
    for (const Json& count : counts) {
      if (!count.is_number_unsigned())
        fail(where, ": pairs of ", module, " must be integers from 0 on");
      row.push_back(count.get<std::uint64_t>());
    }
  }
  return pairs;
}

}  // namespace

ExpertPairs merge_pairs(const ExpertPairs& before,
                        const std::map<std::string, ops::ExpertUsage>& usage) {
  ExpertPairs merged = before;
  for (auto& [module, pairs] : merged) {
    for (std::uint64_t& count : pairs)
      count /= 2;
  }
  for (const auto& [module, used] : usage) {
    std::vector<std::uint64_t>& pairs = merged[module];
    pairs.resize(used.pairs.size(), 0);
    for (std::size_t e = 0; e < pairs.size(); ++e)
      pairs[e] += used.pairs[e];
  }
  return merged;
}

ExpertStats read_expert_stats(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return {};
  const Json json = read_json_file(path, kMaxBytes);
  const auto version = json.is_object() ? json.find("version") : json.end();
  if (version == json.end() || *version != kVersion)
    fail(path.string(), ": not a file of expert statistics of version ", kVersion);
  const auto models = json.find("models");
  if (models == json.end() || !models->is_object())
    fail(path.string(), ": models must be an object");
  ExpertStats stats;
  for (const auto& [name, modules] : models->items())
    stats[name] = read_pairs(modules, path.string());
  return stats;
}

void write_expert_stats(const std::string& model,
                        const ExpertPairs& pairs,
                        const std::filesystem::path& path) {
  static std::mutex mutex;  // models of a server share a file
  const std::lock_guard lock(mutex);
  ExpertStats stats = read_expert_stats(path);
  stats[model] = pairs;
  const std::string text = Json{{"version", kVersion}, {"models", stats}}.dump() + "\n";
  NewFile file(path);
  file.append(std::as_bytes(std::span(text)));
  file.finish();
}

}  // namespace graft::models
