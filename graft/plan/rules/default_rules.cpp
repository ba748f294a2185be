#include "graft/plan/rules/default_rules.h"

#include <string>
#include <system_error>

#include "graft/base/error.h"
#include "graft/base/system/install_paths.h"

namespace graft::plan {
namespace {

namespace fs = std::filesystem;

bool is_safe_file_name(std::string_view family) {
  return !family.empty() && family.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") ==
                                std::string_view::npos;
}

}  // namespace

fs::path rules_folder() {
  return resource_dir("rules", "GRAFT_RULES_DIR");
}

bool fits_gpu(std::uint64_t weight_bytes, std::uint64_t gpu_bytes) {
  constexpr std::uint64_t kReserveBytes = std::uint64_t{1} << 30U;
  return weight_bytes > 0 && weight_bytes + weight_bytes / 8 + kReserveBytes <= gpu_bytes;
}

fs::path default_rules(std::string_view family, int num_gpus, bool fits_gpu) {
  const fs::path folder = rules_folder();
  fs::path file = folder / (num_gpus == 0 ? "cpu.yaml" : "gpu.yaml");
  std::error_code error;
  // The family is read from a checkpoint: "../x" must not escape the folder.
  if (num_gpus > 0 && !fits_gpu && is_safe_file_name(family)) {
    const fs::path hybrid = folder / "hybrid" / (std::string(family) + ".yaml");
    if (fs::is_regular_file(hybrid, error)) file = hybrid;
  }
  if (!fs::is_regular_file(file, error)) fail(file.string(), ": the default rule file is missing");
  return file;
}

}  // namespace graft::plan
