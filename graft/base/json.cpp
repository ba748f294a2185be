#include "graft/base/json.h"

#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/mapped_file.h"

namespace graft {
namespace {

constexpr std::size_t kMaxDepth = 128;

// Builds the value from the parser's events, refusing duplicate keys and deep nesting on the way.
// nlohmann's own callback parser does the same job in quadratic time: after each object it walks
// over all its siblings.
class Builder {
 public:
  explicit Builder(const std::string& where) : where_(where) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(Json::number_integer_t value) { return put(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return put(value); }
  bool number_float(Json::number_float_t value, const std::string& /*text*/) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) { return false; }  // not in JSON text
  bool start_object(std::size_t /*size*/) { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& key) {
    const auto [place, is_new] = open_.back()->emplace(key, nullptr);
    if (!is_new) fail(where_, ": JSON key \"", key, "\" comes twice");
    member_ = &*place;
    return true;
  }

  bool parse_error(std::size_t /*byte*/,
                   const std::string& /*token*/,
                   const Json::exception& error) {
    // nlohmann's text starts with "[json.exception.parse_error.101] "; the rest is for people.
    const std::string_view message = error.what();
    const auto end_of_id = message.find("] ");
    fail(where_, ": not valid JSON: ",
         end_of_id == std::string_view::npos ? message : message.substr(end_of_id + 2));
  }

  Json take() { return std::move(root_); }

 private:
  // Where the next value goes: the root, the end of an array, or the member that key() made.
  Json& place() {
    if (open_.empty()) return root_;
    return open_.back()->is_array() ? open_.back()->emplace_back() : *member_;
  }

  template <class T>
  bool put(T&& value) {
    place() = std::forward<T>(value);
    return true;
  }

  bool open(Json&& value) {
    if (open_.size() == kMaxDepth) fail(where_, ": JSON nested deeper than ", kMaxDepth);
    Json& target = place();
    target = std::move(value);
    open_.push_back(&target);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& where_;
  Json root_;
  std::vector<Json*> open_;  // arrays and objects that are not finished, outermost first
  Json* member_ = nullptr;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  Builder builder(where);
  Json::sax_parse(text, &builder);
  return builder.take();
}

Json read_json_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (bytes.size() > max_bytes) {
    fail(path.string(), ": ", bytes.size(), " bytes of JSON, at most ", max_bytes,
         " are accepted here");
  }
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

}  // namespace graft
