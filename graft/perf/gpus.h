// Speeds of GPUs: as measured by `graft machine`, else published peak figures by name, else those
// of an assumed GPU.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graft/perf/machine.h"
#include "graft/tensor/gpus.h"

namespace graft::perf {

// A mid-range GPU with 24 GiB on PCIe 4.
GpuFigures assumed_gpu();

// By the name that the driver reports ("NVIDIA H200"); nullopt for a name without a row.
std::optional<GpuFigures> published_gpu(std::string_view name, std::uint64_t vram_bytes);

// Sets the GPUs of `machine` to those found. The figures that it has are kept when they are of
// these GPUs.
void set_found_gpus(MachineFigures& machine, const GpuList& found);

// Replaces the sizes of the memory of `machine`, which has the GPUs found, by what is free now: for
// choosing a placement. memory_limit 0: all free host memory.
void set_free_memory(MachineFigures& machine, const GpuList& found, std::uint64_t memory_limit = 0);

}  // namespace graft::perf
