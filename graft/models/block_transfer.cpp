#include "graft/models/block_transfer.h"

#include <algorithm>
#include <limits>
#include <map>

#include "graft/base/check.h"

namespace graft::models {
namespace {

using Clock = std::chrono::steady_clock;

// Copies whose times are kept; more are not in progress at a time.
constexpr std::size_t kMaxKept = 4096;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

BlockTransfer::BlockTransfer(std::span<const Cache> caches, ops::PassDevices& devices) {
  std::map<Device, std::vector<ops::BlockPart>> parts;
  std::map<Device, std::vector<HostPart>> copied_by_host;
  for (const Cache& cache : caches) {
    const std::size_t bytes = cache.cache->bytes_per_block();
    parts[cache.device].push_back(
        {.blocks = cache.cache->blocks(), .bytes = bytes, .offset = block_bytes_});
    copied_by_host[cache.device].push_back({.cache = cache.cache, .offset = block_bytes_});
    block_bytes_ += bytes;
  }
  for (const auto& [device, of_device] : parts) {
    const bool is_known = std::ranges::all_of(
        of_device, [](const ops::BlockPart& part) { return part.blocks != nullptr; });
    std::unique_ptr<ops::BlockCopies> copies =
        is_known ? devices.at(device).make_block_copies(of_device) : nullptr;
    if (copies == nullptr) {
      const std::vector<HostPart>& by_host = copied_by_host.at(device);
      host_parts_.insert(host_parts_.end(), by_host.begin(), by_host.end());
      continue;
    }
    if (copies_.empty()) device_ = device;
    copies_.push_back(std::move(copies));
  }
}

std::int64_t BlockTransfer::num_free() {
  std::int64_t free = std::numeric_limits<std::int64_t>::max();
  for (const auto& copies : copies_)
    free = std::min(free, copies->num_free());
  return free;
}

// The devices count alike, because every call starts a copy on each.
std::uint64_t BlockTransfer::count_copy(double host_seconds) {
  host_seconds_.push_back(host_seconds);
  if (host_seconds_.size() > kMaxKept) host_seconds_.pop_front();
  return num_copies_++;
}

std::uint64_t BlockTransfer::start_save(std::span<const ops::HostBlock> blocks) {
  for (const auto& copies : copies_)
    copies->start_save(blocks);
  const Clock::time_point start = Clock::now();
  for (const ops::HostBlock& block : blocks) {
    for (const HostPart& part : host_parts_) {
      part.cache->save_block(block.block,
                             {block.data + part.offset, part.cache->bytes_per_block()});
    }
  }
  return count_copy(seconds_since(start));
}

std::uint64_t BlockTransfer::start_load(std::span<const ops::ConstHostBlock> blocks) {
  for (const auto& copies : copies_)
    copies->start_load(blocks);
  const Clock::time_point start = Clock::now();
  for (const ops::ConstHostBlock& block : blocks) {
    for (const HostPart& part : host_parts_) {
      part.cache->load_block(block.block,
                             {block.data + part.offset, part.cache->bytes_per_block()});
    }
  }
  return count_copy(seconds_since(start));
}

bool BlockTransfer::is_done(std::uint64_t copy) {
  return std::ranges::all_of(copies_, [&](const auto& copies) { return copies->is_done(copy); });
}

double BlockTransfer::seconds(std::uint64_t copy) {
  GRAFT_CHECK(copy < num_copies_ && num_copies_ - copy <= host_seconds_.size(), "copy ", copy,
              " of ", num_copies_);
  double seconds =
      host_seconds_[host_seconds_.size() - static_cast<std::size_t>(num_copies_ - copy)];
  for (const auto& copies : copies_)
    seconds = std::max(seconds, copies->seconds(copy));
  return seconds;
}

void BlockTransfer::wait() {
  for (const auto& copies : copies_)
    copies->wait();
}

}  // namespace graft::models
