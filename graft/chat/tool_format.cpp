#include "graft/chat/tool_format.h"

#include <array>

namespace graft::chat {
namespace {

using formats::ToolCallFormat;

constexpr std::array kMarkers = {kHermesMarkers,  kDeepSeekMarkers, kMiniMaxMarkers,
                                 kKimiMarkers,    kHarmonyMarkers,  kDsmlMarkers,
                                 kMistralMarkers, kLlamaMarkers,    kPythonTagMarkers};

}  // namespace

std::span<const ToolCallMarkers> tool_call_markers() {
  return kMarkers;
}

ToolCallFormat tool_call_format(std::string_view template_source, ToolCallFormat fallback) {
  bool has_marker = false;
  for (const ToolCallMarkers& row : kMarkers) {
    if (template_source.find(row.open) == std::string_view::npos) continue;
    fallback = has_marker && fallback != row.format ? ToolCallFormat::Any : row.format;
    has_marker = true;
  }
  return fallback;
}

}  // namespace graft::chat
