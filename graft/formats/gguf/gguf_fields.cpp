#include "graft/formats/gguf/gguf_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "graft/base/error.h"

namespace graft::formats {
namespace {

std::string own_key(std::string_view name) {
  return str("graft.", name);
}

}  // namespace

double decimal_of_f32(double value) {
  const auto rounded = static_cast<float>(value);
  if (!std::isfinite(rounded) || static_cast<double>(rounded) != value) return value;
  std::array<char, 32> text{};
  char* const end = std::to_chars(text.data(), text.data() + text.size(), rounded).ptr;
  double out = value;
  std::from_chars(text.data(), end, out);
  return out;
}

GgufFields::GgufFields(const GgufMetadata& metadata, std::span<const TensorInfo> tensors)
    : metadata_(metadata),
      tensors_(tensors),
      architecture_(metadata.string("general.architecture").value_or("")) {
  if (architecture_.empty()) fail("metadata key \"general.architecture\" is missing");
  for (const TensorInfo& tensor : tensors)
    names_.insert(tensor.name);
}

bool GgufFields::has_tensor_ending(std::string_view suffix) const {
  return std::ranges::any_of(
      tensors_, [&](const TensorInfo& tensor) { return tensor.name.ends_with(suffix); });
}

std::string GgufFields::key(std::string_view suffix) const {
  return str(architecture_, '.', suffix);
}

std::optional<std::int64_t> GgufFields::integer(std::string_view suffix) const {
  const std::string name = key(suffix);
  const GgufValue* value = metadata_.find(name);
  if (value == nullptr || !std::holds_alternative<GgufArray>(*value)) {
    return metadata_.integer(name);
  }
  const auto numbers = std::get<GgufArray>(*value).integers();
  const bool uniform = numbers && !numbers->empty() &&
                       std::ranges::count(*numbers, numbers->front()) ==
                           static_cast<std::ptrdiff_t>(numbers->size());
  if (!uniform) {
    fail("metadata key \"", name,
         "\" differs from layer to layer, which is not supported for this model family");
  }
  return numbers->front();
}

std::int64_t GgufFields::integer(std::string_view suffix, std::int64_t fallback) const {
  return integer(suffix).value_or(fallback);
}

std::int64_t GgufFields::required(std::string_view suffix) const {
  const auto value = integer(suffix);
  if (!value) fail("metadata key \"", key(suffix), "\" is missing");
  return *value;
}

double GgufFields::number(std::string_view suffix, double fallback) const {
  return decimal_of_f32(metadata_.number(key(suffix)).value_or(fallback));
}

std::optional<bool> GgufFields::boolean(std::string_view suffix) const {
  return metadata_.boolean(key(suffix));
}

std::optional<std::string> GgufFields::text(std::string_view suffix) const {
  return metadata_.string(key(suffix));
}

std::int64_t GgufFields::own_integer(std::string_view name, std::int64_t fallback) const {
  return metadata_.integer(own_key(name)).value_or(fallback);
}

double GgufFields::own_number(std::string_view name, double fallback) const {
  return metadata_.number(own_key(name)).value_or(fallback);
}

std::optional<bool> GgufFields::own_boolean(std::string_view name) const {
  return metadata_.boolean(own_key(name));
}

std::optional<std::string> GgufFields::own_text(std::string_view name) const {
  return metadata_.string(own_key(name));
}

std::optional<std::vector<std::int64_t>> GgufFields::own_integers(std::string_view name) const {
  const GgufArray* array = metadata_.array(own_key(name));
  if (array == nullptr) return std::nullopt;
  return array->integers().value_or(std::vector<std::int64_t>());
}

void GgufKeyWriter::set(std::string_view suffix, GgufValue value) {
  metadata_.set(str(architecture_, '.', suffix), std::move(value));
}

void GgufKeyWriter::integer(std::string_view suffix, std::int64_t value) {
  set(suffix, static_cast<std::uint32_t>(value));
}

void GgufKeyWriter::number(std::string_view suffix, double value) {
  set(suffix, static_cast<float>(value));
}

void GgufKeyWriter::boolean(std::string_view suffix, bool value) {
  set(suffix, value);
}

void GgufKeyWriter::text(std::string_view suffix, std::string_view value) {
  set(suffix, std::string(value));
}

void GgufKeyWriter::array(std::string_view suffix, GgufArray value) {
  set(suffix, std::move(value));
}

void GgufKeyWriter::own(std::string_view name, GgufValue value) {
  metadata_.set(own_key(name), std::move(value));
}

void GgufKeyWriter::own_integer(std::string_view name, std::int64_t value) {
  own(name, static_cast<std::uint32_t>(value));
}

void GgufKeyWriter::own_integers(std::string_view name, const std::vector<std::int64_t>& values) {
  own(name, GgufArray::of(std::vector<std::int32_t>(values.begin(), values.end())));
}

}  // namespace graft::formats
