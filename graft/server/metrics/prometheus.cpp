#include "graft/server/metrics/prometheus.h"

#include <fmt/format.h>

namespace graft::server {

std::string metric_label(std::string_view name, std::string_view value) {
  std::string text(name);
  text += "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += R"(\n)";
    } else {
      text += c;
    }
  }
  return text + '"';
}

void MetricWriter::begin(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void MetricWriter::add(std::initializer_list<std::pair<std::string_view, std::string_view>> labels,
                       double value) {
  std::string text;
  for (const auto& [name, label] : labels)
    text += (text.empty() ? "" : ",") + metric_label(name, label);
  add(text, value);
}

void MetricWriter::add(const std::string& labels, double value) {
  out_ += labels.empty() ? fmt::format("{} {}\n", name_, value)
                         : fmt::format("{}{{{}}} {}\n", name_, labels, value);
}

void MetricWriter::add_single(std::string_view name,
                              std::string_view type,
                              std::string_view help,
                              double value) {
  begin(name, type, help);
  add(std::string(), value);
}

}  // namespace graft::server
