// Utilization, temperature, power and memory of NVIDIA GPUs, read with NVML, a part of the driver
// that is opened at run time. A thread reads them, because NVML may block. Without NVML or GPUs
// there is no thread and no metric.

#pragma once

#include <memory>
#include <string>

namespace graft::server {

class GpuMonitor {
 public:
  // `library`: the name or path of NVML.
  explicit GpuMonitor(const char* library = "libnvidia-ml.so.1");
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;
  ~GpuMonitor();

  // Of the last reading, at most a few seconds old. Does not block.
  std::string metrics_text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;  // null: no NVML
};

}  // namespace graft::server
