// Typed reading of GGUF metadata: keys below "<general.architecture>." with fallbacks, and the keys
// that only this project writes ("graft.*"). Errors name the key.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "graft/formats/gguf/metadata.h"
#include "graft/formats/weight_source.h"

namespace graft::formats {

// Files store 1e-06 as the nearest f32; config.json means the decimal number. Returns the shortest
// decimal that rounds to the same f32, or `value` when it is not an f32.
double decimal_of_f32(double value);

class GgufFields {
 public:
  // Keeps references to both. Throws Error without "general.architecture".
  GgufFields(const GgufMetadata& metadata, std::span<const TensorInfo> tensors);

  const std::string& architecture() const { return architecture_; }
  const GgufMetadata& metadata() const { return metadata_; }
  std::span<const TensorInfo> tensors() const { return tensors_; }
  bool has_tensor(std::string_view name) const { return names_.contains(name); }
  bool has_tensor_ending(std::string_view suffix) const;

  // "<architecture>.<suffix>"
  std::string key(std::string_view suffix) const;
  bool has(std::string_view suffix) const { return metadata_.find(key(suffix)) != nullptr; }
  // Some converters write one value per layer; the values must be equal.
  std::optional<std::int64_t> integer(std::string_view suffix) const;
  std::int64_t integer(std::string_view suffix, std::int64_t fallback) const;
  std::int64_t required(std::string_view suffix) const;
  double number(std::string_view suffix, double fallback) const;
  std::optional<bool> boolean(std::string_view suffix) const;
  std::optional<std::string> text(std::string_view suffix) const;

  // "graft.<name>"
  std::int64_t own_integer(std::string_view name, std::int64_t fallback) const;
  double own_number(std::string_view name, double fallback) const;
  std::optional<bool> own_boolean(std::string_view name) const;
  std::optional<std::string> own_text(std::string_view name) const;
  std::optional<std::vector<std::int64_t>> own_integers(std::string_view name) const;

 private:
  const GgufMetadata& metadata_;
  std::span<const TensorInfo> tensors_;
  std::unordered_set<std::string_view> names_;
  std::string architecture_;
};

// The counterpart for writing. Integers become u32, numbers f32, as llama.cpp's converter does.
class GgufKeyWriter {
 public:
  GgufKeyWriter(GgufMetadata& metadata, std::string_view architecture)
      : metadata_(metadata), architecture_(architecture) {}

  GgufMetadata& metadata() { return metadata_; }
  void integer(std::string_view suffix, std::int64_t value);
  void number(std::string_view suffix, double value);
  void boolean(std::string_view suffix, bool value);
  void text(std::string_view suffix, std::string_view value);
  void array(std::string_view suffix, GgufArray value);

  // "graft.<name>"
  void own(std::string_view name, GgufValue value);
  void own_integer(std::string_view name, std::int64_t value);
  void own_integers(std::string_view name, const std::vector<std::int64_t>& values);

 private:
  void set(std::string_view suffix, GgufValue value);

  GgufMetadata& metadata_;
  std::string_view architecture_;
};

}  // namespace graft::formats
