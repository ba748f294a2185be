#include "graft/server/generation/running.h"

#include <utility>

namespace graft::server {

std::shared_ptr<void> RunningGenerations::add(RunningGeneration generation) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = next_++;
  generations_.emplace(number, std::move(generation));
  return {nullptr, [this, number](void*) {
            const std::lock_guard end(mutex_);
            generations_.erase(number);
          }};
}

std::vector<RunningGeneration> RunningGenerations::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<RunningGeneration> list;
  for (const auto& [number, generation] : generations_)
    list.push_back(generation);
  return list;
}

}  // namespace graft::server
