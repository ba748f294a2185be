// Typed, range-checked access to the fields of a JSON request. An invalid field is an ApiError 400
// that names it. null counts as absent: clients send null for unset fields.

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/json.h"

namespace graft::server {

// Parses a request body: a JSON object, strict, UTF-8, at most 128 levels deep. Throws ApiError.
OrderedJson parse_body(const std::string& body);

// Why a field is refused that a request cannot have.
inline constexpr const char* kUnknownField = "is not a field of this request";

class Fields;
// The model of a request, and with it the adapter: the field "lora" names one of the model. Empty:
// neither is given.
std::string read_model(const Fields& fields);

// Max stop strings per request; every one is searched for after every token.
inline constexpr std::size_t kMaxStops = 64;

class Fields {
 public:
  // `prefix` precedes field names in messages ("options."). `object` must outlive the fields.
  explicit Fields(const OrderedJson& object, std::string prefix = {});

  // Null when absent or null.
  const OrderedJson* find(const char* name) const;
  bool has(const char* name) const { return find(name) != nullptr; }

  std::optional<double> number(const char* name, double min, double max) const;
  std::optional<std::int64_t> integer(
      const char* name,
      std::int64_t min = std::numeric_limits<std::int64_t>::min(),
      std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  std::optional<bool> boolean(const char* name) const;
  std::optional<std::string> string(const char* name) const;
  std::string required_string(const char* name) const;
  // A string or a list of strings; empty when absent.
  std::vector<std::string> strings(const char* name,
                                   std::size_t max = std::numeric_limits<std::size_t>::max()) const;
  std::vector<std::int32_t> token_ids(const char* name) const;
  // A nested object; nullopt when absent.
  std::optional<Fields> object(const char* name) const;
  // Calls use(fields) for the objects of the list `name`, which must be present.
  template <class Use>
  void for_each_object(const char* name, const Use& use) const;
  const OrderedJson& json() const { return object_; }

  // Throws ApiError 400 when the field is present: the feature is not supported.
  void reject(const char* name, const std::string& why) const;
  // The same, but clients send false, an empty text, list or object where they want nothing.
  void reject_unless_empty(const char* name, const std::string& why) const;
  // Throws ApiError 400 for a field that is in neither list; null counts as absent.
  void reject_unknown(std::initializer_list<std::string_view> known,
                      std::initializer_list<std::string_view> more = {}) const;
  // Throws ApiError 400 "name: what".
  [[noreturn]] void fail_at(const std::string& name, const std::string& what) const;

 private:
  // The list `name`, which must be present; throws ApiError 400 for another type.
  const OrderedJson& list(const char* name) const;
  // The object at `index` of it.
  Fields object_at(const OrderedJson& list, const char* name, std::size_t index) const;

  const OrderedJson& object_;
  std::string prefix_;
};

template <class Use>
void Fields::for_each_object(const char* name, const Use& use) const {
  const OrderedJson& items = list(name);
  for (std::size_t i = 0; i < items.size(); ++i)
    use(object_at(items, name, i));
}

}  // namespace graft::server
