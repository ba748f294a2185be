#include "graft/models/config/window_layers.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "graft/base/text/str.h"

namespace graft::models {
namespace {

constexpr const char* kPeriodKey = "attention.sliding_window_pattern";
constexpr const char* kOwnKey = "window_layers";
constexpr std::int64_t kMaxWindowLayers = 4096;  // validate() reports more

}  // namespace

std::vector<bool> periodic_windows(std::int64_t period, std::int64_t num_layers) {
  std::vector<bool> windows;
  for (std::int64_t layer = 0; layer < std::min(num_layers, kMaxWindowLayers); ++layer)
    windows.push_back(period <= 0 || layer % period < period - 1);
  return windows;
}

std::vector<bool> read_window_layers(const formats::Fields& fields,
                                     std::int64_t num_layers,
                                     std::int64_t period) {
  if (!fields.has("layer_types")) return periodic_windows(period, num_layers);
  const std::vector<std::string> types = fields.texts("layer_types");
  const bool is_known = std::ranges::all_of(types, [](const std::string& type) {
    return type == "sliding_attention" || type == "full_attention";
  });
  if (!is_known || static_cast<std::int64_t>(types.size()) != num_layers) {
    fields.problem("layer_types", *fields.find("layer_types"),
                   str(num_layers, " times sliding_attention or full_attention"));
  }
  std::vector<bool> windows(types.size());
  for (std::size_t i = 0; i < types.size(); ++i)
    windows[i] = types[i] == "sliding_attention";
  return windows;
}

void read_gguf_windows(const formats::GgufFields& gguf,
                       std::int64_t default_period,
                       ModelConfig& config) {
  if (config.sliding_window == 0) return;
  if (const auto windows = gguf.own_integers(kOwnKey)) {
    config.window_layers.assign(windows->begin(), windows->end());
    return;
  }
  config.window_layers =
      periodic_windows(gguf.integer(kPeriodKey, default_period), config.num_hidden_layers);
}

void write_gguf_windows(const ModelConfig& config,
                        std::int64_t default_period,
                        formats::GgufKeyWriter& out) {
  if (config.sliding_window == 0) return;
  // A shortened model has the first layers of the original.
  std::vector<bool> windows = config.window_layers;
  windows.resize(std::min(windows.size(), static_cast<std::size_t>(config.num_hidden_layers)));
  if (windows == periodic_windows(default_period, config.num_hidden_layers)) return;
  for (std::int64_t period = 1; period <= config.num_hidden_layers + 1; ++period) {
    if (windows != periodic_windows(period, config.num_hidden_layers)) continue;
    return out.integer(kPeriodKey, period);
  }
  out.own_integers(kOwnKey, std::vector<std::int64_t>(windows.begin(), windows.end()));
}

}  // namespace graft::models
