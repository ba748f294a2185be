#include "graft/ops/lora.h"

#include "graft/base/check.h"

namespace graft::ops {

void LoraLayer::set(std::int32_t adapter, const LoraMatrices& matrices) {
  GRAFT_CHECK(adapter >= 0 && adapter < kMaxAdapters, "adapter ", adapter);
  GRAFT_CHECK(matrices.rank > 0 && matrices.rank <= kMaxLoraRank, "rank ", matrices.rank);
  store(adapter, matrices);
  used_ |= std::uint64_t{1} << static_cast<unsigned>(adapter);
}

void LoraLayer::clear(std::int32_t adapter) {
  if (!has(adapter)) return;
  used_ &= ~(std::uint64_t{1} << static_cast<unsigned>(adapter));
  drop(adapter);
}

}  // namespace graft::ops
