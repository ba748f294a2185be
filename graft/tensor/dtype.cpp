#include "graft/tensor/dtype.h"

#include <algorithm>

#include "graft/base/text/ascii.h"

namespace graft {
namespace {

template <class Predicate>
std::optional<DType> find_row(Predicate matches) {
  const auto* row = std::ranges::find_if(kDTypes, matches);
  if (row == kDTypes.end()) return std::nullopt;
  return row->type;
}

}  // namespace

std::optional<DType> dtype_from_name(std::string_view name) {
  return find_row([&](const DTypeInfo& row) { return equal_ignoring_case(row.name, name); });
}

std::optional<DType> dtype_from_ggml(std::uint32_t ggml_id) {
  return find_row([&](const DTypeInfo& row) {
    return row.ggml_id >= 0 && static_cast<std::uint32_t>(row.ggml_id) == ggml_id;
  });
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  return find_row(
      [&](const DTypeInfo& row) { return !row.safetensors.empty() && row.safetensors == name; });
}

}  // namespace graft
