// Typed reading of a JSON object of a checkpoint. A value of the wrong kind is added to a list of
// problems and the fallback is returned, so that one Error can name all of them. A null counts as
// absent, as in transformers.

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/json.h"

namespace graft::formats {

// Max value of sizes, counts and ids; larger values are invalid.
inline constexpr std::int64_t kMaxInteger = std::int64_t{1} << 40;

// {}, for files and keys that are absent.
const Json& empty_object();

class Fields {
 public:
  // `prefix` precedes keys in messages ("text_config."). Object and problems must outlive the
  // fields.
  Fields(const Json& object, std::string prefix, std::vector<std::string>& problems);

  // Adds every requested key, also of nested objects, to `keys`, which must outlive the
  // fields.
  void log_keys_to(std::set<std::string>& keys) { asked_ = &keys; }

  bool has(std::string_view key) const { return find(key) != nullptr; }
  // Null when the key is absent.
  const Json* find(std::string_view key) const;
  // Whether the key is present and null, for keys where null means "none", not "the default".
  bool is_null(std::string_view key) const;

  std::int64_t integer(std::string_view key, std::int64_t fallback, std::int64_t low = 0) const;
  std::optional<std::int64_t> integer(std::string_view key) const;  // may be negative
  double number(std::string_view key, double fallback) const;
  std::optional<double> number(std::string_view key) const;
  bool boolean(std::string_view key, bool fallback) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::string text(std::string_view key, std::string_view fallback) const;
  // A list of integers; with `or_one` also a single integer, as a list of one.
  std::vector<std::int64_t> integers(std::string_view key, bool or_one = false) const;
  std::vector<std::string> texts(std::string_view key) const;
  // The nested object; an empty one when absent or of another kind.
  Fields object(std::string_view key) const;

  // "KEY" is VALUE, expected EXPECTED
  void problem(std::string_view key, const Json& value, std::string_view expected) const;

 private:
  std::optional<std::int64_t> checked_integer(std::string_view key,
                                              const Json& value,
                                              std::int64_t low) const;

  const Json* object_;
  std::string prefix_;
  std::vector<std::string>* problems_;
  std::set<std::string>* asked_ = nullptr;
};

// Throws Error with all problems when there are any.
void fail_if_any(const std::vector<std::string>& problems, const std::string& where);

}  // namespace graft::formats
