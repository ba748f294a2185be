// Prometheus's text format.

#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace graft::server {

// `name="value"` with backslashes, quotes and newlines of the value escaped.
std::string metric_label(std::string_view name, std::string_view value);

// Appends metrics to a text: begin() once per metric, then its samples.
class MetricWriter {
 public:
  explicit MetricWriter(std::string& out) : out_(out) {}

  // `type`: counter, gauge or histogram.
  void begin(std::string_view name, std::string_view type, std::string_view help);
  void add(std::initializer_list<std::pair<std::string_view, std::string_view>> labels,
           double value);
  // `labels` are already formatted.
  void add(const std::string& labels, double value);
  // A metric with one sample without labels.
  void add_single(std::string_view name,
                  std::string_view type,
                  std::string_view help,
                  double value);

 private:
  std::string& out_;
  std::string name_;
};

}  // namespace graft::server
