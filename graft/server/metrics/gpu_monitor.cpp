#include "graft/server/metrics/gpu_monitor.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <dlfcn.h>

#include "graft/server/metrics/prometheus.h"

namespace graft::server {
namespace {

constexpr auto kReadInterval = std::chrono::seconds(2);

// NVML's ABI, from nvml.h: all functions return 0 on success. Its structs of equal members are
// arrays here.
using NvmlDevice = void*;

struct GpuReading {
  std::string uuid = {};
  std::optional<double> utilization = {};  // 0 to 1
  std::optional<double> celsius = {};
  std::optional<double> watts = {};
  std::optional<double> used_bytes = {};
  std::optional<double> total_bytes = {};
};

// The functions of NVML; open() is false when the library or a function is missing.
class Nvml {
 public:
  Nvml() = default;
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() {
    if (is_initialized_) shutdown_();
    if (library_ != nullptr) ::dlclose(library_);
  }

  bool open(const char* name) {
    library_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return false;
    const bool has_all =
        find(init_, "nvmlInit_v2") && find(shutdown_, "nvmlShutdown") &&
        find(count_, "nvmlDeviceGetCount_v2") && find(handle_, "nvmlDeviceGetHandleByIndex_v2") &&
        find(uuid_, "nvmlDeviceGetUUID") && find(utilization_, "nvmlDeviceGetUtilizationRates") &&
        find(temperature_, "nvmlDeviceGetTemperature") && find(power_, "nvmlDeviceGetPowerUsage") &&
        find(memory_, "nvmlDeviceGetMemoryInfo");
    is_initialized_ = has_all && init_() == 0;
    return is_initialized_;
  }

  std::vector<GpuReading> read() const {
    unsigned int num_gpus = 0;
    if (count_(&num_gpus) != 0) return {};
    std::vector<GpuReading> readings(num_gpus);
    for (unsigned int i = 0; i < num_gpus; ++i)
      read(i, readings[i]);
    return readings;
  }

 private:
  template <class Function>
  bool find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(library_, name));
    return function != nullptr;
  }

  // A value that the GPU does not report stays empty.
  void read(unsigned int index, GpuReading& reading) const {
    constexpr int kGpuSensor = 0;
    NvmlDevice device = nullptr;
    if (handle_(index, &device) != 0) return;
    char uuid[96] = {};
    if (uuid_(device, uuid, sizeof(uuid)) == 0) reading.uuid = uuid;
    unsigned int percent[2] = {};  // of the last sample period: GPU, memory
    if (utilization_(device, percent) == 0) reading.utilization = percent[0] / 100.0;
    unsigned int celsius = 0;
    if (temperature_(device, kGpuSensor, &celsius) == 0) reading.celsius = celsius;
    unsigned int milliwatts = 0;
    if (power_(device, &milliwatts) == 0) reading.watts = milliwatts / 1000.0;
    unsigned long long bytes[3] = {};  // total, free, used
    if (memory_(device, bytes) != 0) return;
    reading.used_bytes = static_cast<double>(bytes[2]);
    reading.total_bytes = static_cast<double>(bytes[0]);
  }

  void* library_ = nullptr;
  bool is_initialized_ = false;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*count_)(unsigned int*) = nullptr;
  int (*handle_)(unsigned int, NvmlDevice*) = nullptr;
  int (*uuid_)(NvmlDevice, char*, unsigned int) = nullptr;
  int (*utilization_)(NvmlDevice, unsigned int*) = nullptr;
  int (*temperature_)(NvmlDevice, int, unsigned int*) = nullptr;
  int (*power_)(NvmlDevice, unsigned int*) = nullptr;
  int (*memory_)(NvmlDevice, unsigned long long*) = nullptr;
};

}  // namespace

struct GpuMonitor::State {
  void run() {
    std::unique_lock lock(mutex);
    while (!is_stopping) {
      lock.unlock();
      std::vector<GpuReading> now = nvml.read();
      lock.lock();
      readings.swap(now);
      wake.wait_for(lock, kReadInterval, [this] { return is_stopping; });
    }
  }

  Nvml nvml;
  std::mutex mutex;
  std::condition_variable wake;
  bool is_stopping = false;
  std::vector<GpuReading> readings;
  std::thread thread;
};

GpuMonitor::GpuMonitor(const char* library) : state_(std::make_unique<State>()) {
  if (!state_->nvml.open(library)) {
    state_.reset();
    return;
  }
  state_->readings = state_->nvml.read();
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

GpuMonitor::~GpuMonitor() {
  if (!state_) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_stopping = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
}

std::string GpuMonitor::metrics_text() const {
  if (!state_) return {};
  std::vector<GpuReading> readings;
  {
    const std::lock_guard lock(state_->mutex);
    readings = state_->readings;
  }
  std::string out;
  MetricWriter metrics(out);
  const auto add = [&](const char* name, const char* help,
                       std::optional<double> GpuReading::*value) {
    metrics.begin(name, "gauge", help);
    for (std::size_t i = 0; i < readings.size(); ++i) {
      const std::optional<double>& reading = readings[i].*value;
      if (!reading) continue;
      metrics.add({{"gpu", std::to_string(i)}, {"uuid", readings[i].uuid}}, *reading);
    }
  };
  add("graft:gpu_utilization_ratio", "Fraction of the time in which the GPU ran kernels.",
      &GpuReading::utilization);
  add("graft:gpu_temperature_celsius", "Temperature of the GPU.", &GpuReading::celsius);
  add("graft:gpu_power_watts", "Power of the GPU.", &GpuReading::watts);
  add("graft:gpu_memory_used_bytes", "Used memory of the GPU, over all processes.",
      &GpuReading::used_bytes);
  add("graft:gpu_memory_total_bytes", "Memory of the GPU.", &GpuReading::total_bytes);
  return out;
}

}  // namespace graft::server
