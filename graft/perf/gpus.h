// Speeds of GPUs, which `graft machine` does not measure: published peak figures by name, else
// those of an assumed GPU.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graft/perf/machine.h"

namespace graft::perf {

// A mid-range GPU with 24 GiB on PCIe 4.
GpuFigures assumed_gpu();

// By the name that the driver reports ("NVIDIA H200"); nullopt for a name without a row.
std::optional<GpuFigures> published_gpu(std::string_view name, std::uint64_t vram_bytes);

}  // namespace graft::perf
