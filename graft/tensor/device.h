// A device that holds memory or runs operators: "cpu", "cuda:0", "cuda:1" …

#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace graft {

enum class DeviceType : std::uint8_t { Cpu, Cuda };

struct Device {
  DeviceType type = DeviceType::Cpu;
  std::int32_t index = 0;  // 0 for the CPU

  auto operator<=>(const Device&) const = default;
};

inline constexpr Device kCpu = {};

std::string to_string(Device device);

// Parses "cpu", "cuda" (= "cuda:0") and "cuda:N". nullopt for other names; the rule parser handles
// devices of other engines ("npu", "xpu").
std::optional<Device> device_from_name(std::string_view name);

}  // namespace graft
