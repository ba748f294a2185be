#include "graft/base/json.h"

#include <unordered_set>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/mapped_file.h"

namespace graft {
namespace {

constexpr int kMaxDepth = 128;

// Watches the parser for duplicate keys and for nesting.
class Guard {
 public:
  explicit Guard(const std::string& where) : where_(where) {}

  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth > kMaxDepth) fail(where_, ": JSON nested deeper than ", kMaxDepth);
    if (event == Json::parse_event_t::object_start) {
      keys_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys_.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) fail(where_, ": JSON key \"", key, "\" comes twice");
    }
    return true;
  }

 private:
  const std::string& where_;
  std::vector<std::unordered_set<std::string>> keys_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  try {
    return Json::parse(text, Guard(where));
  } catch (const Json::exception& error) {
    // nlohmann's text starts with "[json.exception.parse_error.101] "; the rest is for people.
    const std::string_view message = error.what();
    const auto end_of_id = message.find("] ");
    fail(where, ": not valid JSON: ",
         end_of_id == std::string_view::npos ? message : message.substr(end_of_id + 2));
  }
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
