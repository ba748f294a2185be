#include "graft/engine/adapters/adapters.h"

#include <algorithm>
#include <array>

#include <xxhash.h>

#include "graft/base/error.h"

namespace graft::engine {

std::uint64_t salt_with(std::uint64_t cache_salt, const AdapterRef& adapter) {
  if (adapter == nullptr) return cache_salt;
  const std::array<std::uint64_t, 2> both = {cache_salt, adapter->info.identity};
  return std::max<std::uint64_t>(XXH3_64bits(both.data(), sizeof(both)), 1);
}

std::uint64_t share_of(std::uint64_t client, const AdapterRef& adapter) {
  return adapter == nullptr ? client : salt_with(client, adapter);
}

Adapters::Adapters(models::OpenModel& open) : model_(open.model()) {
  for (const AdapterInfo& info : open.adapters()) {
    const auto index = static_cast<std::int32_t>(loaded_.size());
    loaded_.push_back(
        std::make_shared<const LoadedAdapter>(LoadedAdapter{.index = index, .info = info}));
    slots_[static_cast<std::size_t>(index)] = {.users = loaded_.back(), .is_set = true};
  }
}

AdapterRef Adapters::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      loaded_, [&](const AdapterRef& adapter) { return adapter->info.source.name == name; });
  return found == loaded_.end() ? nullptr : *found;
}

AdapterRef Adapters::find(std::uint64_t identity) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      loaded_, [&](const AdapterRef& adapter) { return adapter->info.identity == identity; });
  return found == loaded_.end() ? nullptr : *found;
}

std::vector<AdapterInfo> Adapters::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<AdapterInfo> infos;
  for (const AdapterRef& adapter : loaded_)
    infos.push_back(adapter->info);
  return infos;
}

bool Adapters::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return std::erase_if(loaded_, [&](const AdapterRef& adapter) {
           return adapter->info.source.name == name;
         }) > 0;
}

void Adapters::add(const models::Adapter& adapter) {
  if (find(adapter.name()) != nullptr) fail("adapter '", adapter.name(), "' is already loaded");
  free_unused();
  const auto slot = std::ranges::find(slots_, false, &Slot::is_set);
  if (slot == slots_.end()) {
    fail("adapter '", adapter.name(), "': ", ops::kMaxAdapters,
         " adapters are loaded, more are not supported");
  }
  const auto index = static_cast<std::int32_t>(slot - slots_.begin());
  model_.set_adapter(index, adapter);
  const auto loaded =
      std::make_shared<const LoadedAdapter>(LoadedAdapter{.index = index, .info = adapter.info()});
  const std::lock_guard lock(mutex_);
  *slot = {.users = loaded, .is_set = true};
  loaded_.push_back(loaded);
}

bool Adapters::has_unused() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(slots_,
                             [](const Slot& slot) { return slot.is_set && slot.users.expired(); });
}

void Adapters::free_unused() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    {
      const std::lock_guard lock(mutex_);
      if (!slots_[i].is_set || !slots_[i].users.expired()) continue;
      slots_[i] = {};
    }
    model_.clear_adapter(static_cast<std::int32_t>(i));
  }
}

}  // namespace graft::engine
