#include "graft/hub/hugging_face.h"

#include <utility>

#include "graft/base/error.h"
#include "graft/hub/fields.h"

namespace graft::hub {
namespace {

RemoteFile read_file_entry(const Json& entry, const std::string& where) {
  RemoteFile file = {.path = string_field(entry, "rfilename", where)};
  check_remote_path(file.path, where);
  const std::string subject = str(where, ": ", file.path);
  if (entry.contains("lfs") && entry["lfs"].is_object()) {
    const Json& lfs = entry["lfs"];
    file.size = size_field(lfs, "size", subject);
    file.hash = sha256_or_none(optional_string(lfs, "sha256"));
    if (file.hash.kind == ExpectedHash::Kind::None)
      fail(subject, ": the hub lists no SHA-256 for a large file");
    return file;
  }
  file.size = size_field(entry, "size", subject);
  file.hash = git_sha1_or_none(optional_string(entry, "blobId"));
  return file;
}

}  // namespace

RemoteRepo parse_hugging_face(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  RemoteRepo repo = {.commit = string_field(json, "sha", where)};
  if (git_sha1_or_none(repo.commit).kind == ExpectedHash::Kind::None)
    fail(where, ": field 'sha' is not a commit: '", repo.commit, "'");
  const Json& siblings = array_field(json, "siblings", where);
  if (siblings.size() > kMaxRemoteFiles)
    fail(where, ": ", siblings.size(), " files, max ", kMaxRemoteFiles);
  for (const Json& entry : siblings)
    repo.files.push_back(read_file_entry(entry, where));
  return repo;
}

std::vector<std::string> hugging_face_headers(const Environment& env) {
  if (env.hf_token.empty()) return {};
  return {str("Authorization: Bearer ", env.hf_token)};
}

RemoteRepo list_hugging_face(HttpClient& client, const Environment& env, const ModelRef& ref) {
  const std::string revision = ref.revision.empty() ? "main" : ref.revision;
  // A branch name may have slashes, which this path needs encoded.
  std::string encoded = encode_path(revision);
  for (std::size_t at = encoded.find('/'); at != std::string::npos; at = encoded.find('/', at))
    encoded.replace(at, 1, "%2F");
  const HttpResponse response = client.get(
      {.url = str(env.hf_endpoint, "/api/models/", ref.repo, "/revision/", encoded, "?blobs=true"),
       .headers = hugging_face_headers(env)});
  check_status(response, ref.revision.empty() ? ref.repo : str(ref.repo, "@", revision));
  return parse_hugging_face(response.body, ref.repo);
}

std::string hugging_face_url(const Environment& env,
                             const ModelRef& ref,
                             const std::string& commit,
                             const std::string& file) {
  return str(env.hf_endpoint, "/", ref.repo, "/resolve/", commit, "/", encode_path(file));
}

}  // namespace graft::hub
