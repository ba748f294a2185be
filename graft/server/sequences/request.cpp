#include "graft/server/sequences/request.h"

#include <algorithm>

#include "graft/base/text/str.h"
#include "graft/server/api_error.h"
#include "graft/server/fields.h"
#include "graft/server/openai/chat_request.h"

namespace graft::server::sequences {
namespace {

constexpr std::string_view kRoot = "/v1/sequences/";
constexpr std::string_view kSave = "/save";
constexpr std::string_view kRestore = "/restore";
constexpr std::size_t kMaxName = 128;  // as of request ids

// The ASCII characters that no file system treats specially.
bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

}  // namespace

SequencePath read_path(std::string_view path) {
  const std::string_view rest = path.substr(std::min(kRoot.size(), path.size()));
  for (const std::string_view action : {kSave, kRestore}) {
    if (rest.size() > action.size() && rest.ends_with(action)) {
      return {.id = std::string(rest.substr(0, rest.size() - action.size())),
              .is_save = action == kSave};
    }
  }
  throw ApiError(
      404, str("no such path: ", path, "; use /v1/sequences/ID/save or /v1/sequences/ID/restore"),
      {}, "not_found");
}

SaveRequest read_save(const OrderedJson& body) {
  const Fields fields(body);
  fields.reject_unknown({"filename", "prompt", "sample"});
  return {.filename = fields.string("filename").value_or(""),
          .prompt = fields.integer("prompt", 0).value_or(0),
          .sample = fields.integer("sample", 0).value_or(0)};
}

RestoreRequest read_restore(const OrderedJson& body) {
  const Fields fields(body);
  fields.reject_unknown({"model", "filename", "echo", "stream", "stream_options"});
  RestoreRequest request = {.model = fields.string("model").value_or(""),
                            .filename = fields.string("filename").value_or(""),
                            .echo = fields.boolean("echo").value_or(false),
                            .is_stream = fields.boolean("stream").value_or(false)};
  request.include_usage = openai::read_include_usage(fields, request.is_stream);
  return request;
}

void check_filename(const std::string& name) {
  const bool is_valid = !name.empty() && name.size() <= kMaxName && name.front() != '.' &&
                        std::ranges::all_of(name, is_plain);
  if (is_valid) return;
  throw ApiError(400,
                 str("filename: must have 1 to ", kMaxName,
                     " letters, digits, '-', '_' and '.', and not begin with '.'"),
                 "filename");
}

}  // namespace graft::server::sequences
