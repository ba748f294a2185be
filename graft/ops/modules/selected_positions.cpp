#include "graft/ops/modules/selected_positions.h"

#include <algorithm>

#include "graft/base/check.h"
#include "graft/ops/devices/device_context.h"

namespace graft::ops {

SelectedPositions::SelectedPositions(std::span<const Device> devices,
                                     std::int64_t rows,
                                     std::int64_t top_k,
                                     const Pass& pass)
    : devices_(*pass.devices) {
  for (const Device device : devices) {
    copies_.push_back(
        {.positions = ops::on(device, pass).workspace.allocate(DType::I32, {rows, top_k})});
  }
}

SelectedPositions::Copy& SelectedPositions::at(Device device) {
  const auto found = std::ranges::find_if(
      copies_, [&](const Copy& copy) { return copy.positions.device == device; });
  GRAFT_CHECK(found != copies_.end(), "no selected positions on ", to_string(device));
  return *found;
}

TensorView SelectedPositions::replace(Device device) {
  for (Copy& copy : copies_)
    copy.is_current = copy.positions.device == device;
  return at(device).positions;
}

TensorView SelectedPositions::on(Device device) {
  Copy& copy = at(device);
  if (copy.is_current) return copy.positions;
  const auto from = std::ranges::find_if(copies_, &Copy::is_current);
  GRAFT_CHECK(from != copies_.end(), "no layer before has selected positions");
  devices_.copy(from->positions, copy.positions);
  copy.is_current = true;
  return copy.positions;
}

}  // namespace graft::ops
