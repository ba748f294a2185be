#include "graft/models/weights/weights.h"

#include <string>

namespace graft::models {

using ops::Weight;

Weight CheckpointWeights::get(std::string_view name) {
  Weight weight = store_.get(name);
  bytes_given_ += store_.stored_bytes(name);
  return weight;
}

std::vector<Weight> CheckpointWeights::experts(std::string_view experts,
                                               std::string_view projection) {
  std::vector<Weight> weights;
  for (const std::string& name : store_.expert_names(experts, projection))
    weights.push_back(get(name));
  return weights;
}

void CheckpointWeights::release(const Weight& weight) {
  bytes_done_ += store_.release(weight.name);
  if (report_) report_(bytes_done_);
}

void CheckpointWeights::warn(const std::string& line) {
  if (warn_ && warned_.insert(line).second) warn_(line);
}

void CheckpointWeights::finish_operator() {
  bytes_done_ = bytes_given_;
  if (report_) report_(bytes_done_);
}

}  // namespace graft::models
