#include "graft/hub/modelscope.h"

#include <utility>

#include "graft/base/error.h"
#include "graft/hub/fields.h"

namespace graft::hub {
namespace {

std::string revision_of(const ModelRef& ref) {
  return encode_path(ref.revision.empty() ? "master" : ref.revision);
}

}  // namespace

RemoteRepo parse_modelscope(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  if (!json.is_object() || !json.contains("Data") || !json["Data"].is_object()) {
    const std::string message = optional_string(json, "Message");
    fail(where, ": ", message.empty() ? "field 'Data' is not an object" : message.substr(0, 500));
  }
  const Json& list = array_field(json["Data"], "Files", where);
  if (list.size() > kMaxRemoteFiles)
    fail(where, ": ", list.size(), " files, max ", kMaxRemoteFiles);
  RemoteRepo repo;
  for (const Json& entry : list) {
    if (string_field(entry, "Type", where) == "tree") continue;
    RemoteFile file = {.path = string_field(entry, "Path", where)};
    check_remote_path(file.path, where);
    file.size = size_field(entry, "Size", str(where, ": ", file.path));
    file.hash = sha256_or_none(optional_string(entry, "Sha256"));
    repo.files.push_back(std::move(file));
  }
  return repo;
}

std::vector<std::string> modelscope_headers(const Environment& env) {
  if (env.modelscope_token.empty()) return {};
  return {str("Authorization: Bearer ", env.modelscope_token)};
}

RemoteRepo list_modelscope(HttpClient& client, const Environment& env, const ModelRef& ref) {
  const HttpResponse response =
      client.get({.url = str(env.modelscope_endpoint, "/api/v1/models/", ref.repo,
                             "/repo/files?Revision=", revision_of(ref), "&Recursive=true"),
                  .headers = modelscope_headers(env)});
  check_status(response, to_string(ref));
  return parse_modelscope(response.body, to_string(ref));
}

std::string modelscope_url(const Environment& env, const ModelRef& ref, const std::string& file) {
  return str(env.modelscope_endpoint, "/api/v1/models/", ref.repo,
             "/repo?Revision=", revision_of(ref), "&FilePath=", encode_path(file));
}

}  // namespace graft::hub
