// Finds a tensor by name in a list owned by the caller.

#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <unordered_map>

#include "graft/formats/weight_source.h"

namespace graft::formats {

class NameIndex {
 public:
  NameIndex() = default;
  // The tensors must outlive the index and not move.
  explicit NameIndex(std::span<const TensorInfo> tensors) {
    for (const TensorInfo& tensor : tensors)
      by_name_.emplace(tensor.name, &tensor);
  }

  const TensorInfo* find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  std::unordered_map<std::string_view, const TensorInfo*> by_name_;
};

}  // namespace graft::formats
