// The functions of NVML that the server uses, for one GPU of a test; the second GPU reports errors.

#include <cstring>

extern "C" {

int nvmlInit_v2() {
  return 0;
}

int nvmlShutdown() {
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 2;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  static int gpu = 0;
  *device = &gpu;
  return index == 0 ? 0 : 1;
}

int nvmlDeviceGetUUID(void* /*device*/, char* text, unsigned int size) {
  std::strncpy(text, "GPU-test", size);
  return 0;
}

int nvmlDeviceGetUtilizationRates(void* /*device*/, unsigned int* percent) {
  percent[0] = 25;
  percent[1] = 10;
  return 0;
}

int nvmlDeviceGetTemperature(void* /*device*/, int /*sensor*/, unsigned int* celsius) {
  *celsius = 61;
  return 0;
}

int nvmlDeviceGetPowerUsage(void* /*device*/, unsigned int* /*milliwatts*/) {
  return 3;  // not supported
}

int nvmlDeviceGetMemoryInfo(void* /*device*/, unsigned long long* bytes) {
  bytes[0] = 1000;  // total, free, used
  bytes[1] = 400;
  bytes[2] = 600;
  return 0;
}
}
