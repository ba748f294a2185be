// Fields of a request, read with their types and limits. What is wrong is an ApiError 400 that
// names the field; null is like absent, as clients send it.

#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "graft/base/text/json.h"

namespace graft::server {

// The body of a request: an object. Strict JSON in UTF-8, not nested deeper than 128.
OrderedJson parse_body(const std::string& body);

// Texts that end an answer; each is looked for after every token.
inline constexpr std::size_t kMaxStops = 64;

class Fields {
 public:
  // `where` stands before names in messages: "options.". The object must outlive the fields.
  explicit Fields(const OrderedJson& object, std::string where = {});

  // Null when absent or null.
  const OrderedJson* find(const char* name) const;
  bool has(const char* name) const { return find(name) != nullptr; }

  std::optional<double> number(const char* name, double least, double most) const;
  std::optional<std::int64_t> integer(
      const char* name,
      std::int64_t least = std::numeric_limits<std::int64_t>::min(),
      std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  std::optional<bool> flag(const char* name) const;
  std::optional<std::string> text(const char* name) const;
  std::string needed_text(const char* name) const;
  // One string or a list of them; empty when absent.
  std::vector<std::string> texts(const char* name,
                                 std::size_t most = std::numeric_limits<std::size_t>::max()) const;
  std::vector<std::int32_t> ids(const char* name) const;  // a list of token ids
  // A nested object, if it is there.
  std::optional<Fields> object(const char* name) const;
  const OrderedJson& json() const { return object_; }

  // 400 when the field is there: this server does not have what it asks for.
  void refuse(const char* name, const std::string& why) const;
  [[noreturn]] void fail_at(const std::string& name, const std::string& what) const;

 private:
  const OrderedJson& object_;
  std::string where_;
};

}  // namespace graft::server
