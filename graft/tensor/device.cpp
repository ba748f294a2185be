#include "graft/tensor/device.h"

#include <charconv>

namespace graft {

std::string to_string(Device device) {
  if (device.type == DeviceType::Cpu) return "cpu";
  return "cuda:" + std::to_string(device.index);
}

std::optional<Device> device_from_name(std::string_view name) {
  if (name == "cpu") return kCpu;
  if (name == "cuda") return Device{.type = DeviceType::Cuda, .index = 0};
  constexpr std::string_view kPrefix = "cuda:";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return std::nullopt;
  std::int32_t index = -1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, index);
  if (error != std::errc() || stop != end || index < 0) return std::nullopt;
  return Device{.type = DeviceType::Cuda, .index = index};
}

}  // namespace graft
