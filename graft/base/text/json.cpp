#include "graft/base/text/json.h"

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/system/mapped_file.h"

namespace graft {
namespace {

constexpr std::size_t kMaxDepth = 128;

// add() returns the new member of an object, or nullptr for a duplicate key.
class Members {
 public:
  Json* add(Json& object, const std::string& key) {
    const auto [member, is_new] = object.emplace(key, nullptr);
    return is_new ? &*member : nullptr;
  }
};

// An ordered object is a list of pairs with linear lookup; a key set per open object makes the
// duplicate check constant time.
class OrderedMembers {
 public:
  OrderedJson* add(OrderedJson& object, const std::string& key) {
    if (!keys_.insert(key).second) return nullptr;
    return &object.get_ref<OrderedJson::object_t&>().emplace_back(key, nullptr).second;
  }

 private:
  std::unordered_set<std::string> keys_;
};

// Builds the value from SAX events and rejects duplicate keys and deep nesting. nlohmann's callback
// parser is quadratic here: after each object it walks over all siblings.
template <class Value, class MembersOf>
class Builder {
 public:
  Builder(const std::string& where, std::size_t max_values)
      : where_(where), max_values_(max_values) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(typename Value::number_integer_t value) { return put(value); }
  bool number_unsigned(typename Value::number_unsigned_t value) { return put(value); }
  bool number_float(typename Value::number_float_t value, const std::string& /*text*/) {
    return put(value);
  }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(typename Value::binary_t& /*value*/) { return false; }  // not in JSON text
  bool start_object(std::size_t /*size*/) { return open(Value::object()); }
  bool start_array(std::size_t /*size*/) { return open(Value::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& key) {
    member_ = open_.back().members.add(*open_.back().value, key);
    if (member_ == nullptr) fail(where_, ": duplicate JSON key \"", key, "\"");
    return true;
  }

  bool parse_error(std::size_t /*byte*/,
                   const std::string& /*token*/,
                   const nlohmann::detail::exception& error) {
    // Strip nlohmann's prefix "[json.exception.parse_error.101] ".
    const std::string_view message = error.what();
    const auto end_of_id = message.find("] ");
    fail(where_, ": not valid JSON: ",
         end_of_id == std::string_view::npos ? message : message.substr(end_of_id + 2));
  }

  Value take() { return std::move(root_); }

 private:
  // Destination of the next value: the root, the end of an array, or the member added by key().
  Value& destination() {
    if (++num_values_ > max_values_) fail(where_, ": JSON with more than ", max_values_, " values");
    if (open_.empty()) return root_;
    Value& parent = *open_.back().value;
    return parent.is_array() ? parent.emplace_back() : *member_;
  }

  template <class T>
  bool put(T&& value) {
    destination() = std::forward<T>(value);
    return true;
  }

  bool open(Value&& value) {
    if (open_.size() == kMaxDepth) fail(where_, ": JSON nested deeper than ", kMaxDepth);
    Value& target = destination();
    target = std::move(value);
    open_.push_back({&target, {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  struct Open {
    Value* value;
    MembersOf members;
  };

  const std::string& where_;
  const std::size_t max_values_;
  std::size_t num_values_ = 0;
  Value root_;
  std::vector<Open> open_;  // unfinished arrays and objects, outermost first
  Value* member_ = nullptr;
};

template <class Value, class MembersOf>
Value parse(std::string_view text, const std::string& where, std::size_t max_values) {
  Builder<Value, MembersOf> builder(where, max_values);
  Value::sax_parse(text, &builder);
  return builder.take();
}

std::string_view text_of(const MappedFile& file,
                         const std::filesystem::path& path,
                         std::size_t max_bytes) {
  const auto bytes = file.bytes();
  if (bytes.size() > max_bytes) {
    fail(path.string(), ": JSON file of ", bytes.size(), " bytes exceeds the limit of ", max_bytes,
         " bytes");
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  return parse<Json, Members>(text, where, std::numeric_limits<std::size_t>::max());
}

OrderedJson parse_ordered_json(std::string_view text,
                               const std::string& where,
                               std::size_t max_values) {
  return parse<OrderedJson, OrderedMembers>(text, where, max_values);
}

Json read_json_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const MappedFile file(path);
  return parse_json(text_of(file, path, max_bytes), path.string());
}

OrderedJson read_ordered_json_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const MappedFile file(path);
  return parse_ordered_json(text_of(file, path, max_bytes), path.string());
}

}  // namespace graft
