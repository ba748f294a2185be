#include "graft/testing/hub/hub_peer.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "graft/base/text/json.h"
#include "graft/base/text/str.h"

namespace graft::hub::testing {
namespace {

std::string hash_hex(const std::string& content, const EVP_MD* type) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned size = 0;
  EVP_Digest(content.data(), content.size(), digest.data(), &size, type, nullptr);
  std::string text;
  for (unsigned i = 0; i < size; ++i)
    text += fmt::format("{:02x}", digest.at(i));
  return text;
}

// "/a/b/rest" after "/a/b/"; empty when the target is another one.
std::string after(const std::string& target, const std::string& prefix) {
  return target.starts_with(prefix) ? target.substr(prefix.size()) : "";
}

std::string until(const std::string& text, const std::string& end) {
  return text.substr(0, text.find(end));
}

}  // namespace

std::string sha256_hex(const std::string& content) {
  return hash_hex(content, EVP_sha256());
}

std::string git_sha1_hex(const std::string& content) {
  return hash_hex(str("blob ", content.size(), '\0', content), EVP_sha1());
}

HubPeer::HubPeer()
    : storage_([this](const PeerRequest& request) { return answer(request, true); }),
      hub_([this](const PeerRequest& request) { return answer(request, false); }) {}

void HubPeer::add_file(const std::string& repo, const std::string& path, std::string content) {
  const std::lock_guard lock(mutex_);
  blobs_[sha256_hex(content)] = content;
  repos_[repo][path] = std::move(content);
}

void HubPeer::add_ollama(const std::string& repo,
                         const std::string& tag,
                         const std::map<std::string, std::string>& layers) {
  const std::lock_guard lock(mutex_);
  const auto layer = [&](const std::string& type, const std::string& content) {
    blobs_[sha256_hex(content)] = content;
    return Json{{"mediaType", type},
                {"digest", "sha256:" + published_sha256(content)},
                {"size", content.size()}};
  };
  Json list = Json::array();
  for (const auto& [kind, content] : layers)
    list.push_back(layer("application/vnd.ollama.image." + kind, content));
  manifests_[str(repo, "/manifests/", tag)] = Json{
      {"schemaVersion", 2},
      {"config", layer("application/vnd.docker.container.image.v1+json", "{}")},
      {"layers", list}}.dump();
}

void HubPeer::set_token(const std::string& token) {
  const std::lock_guard lock(mutex_);
  token_ = token;
}

void HubPeer::give_tokens(int uses) {
  const std::lock_guard lock(mutex_);
  uses_of_token_ = uses;
}

void HubPeer::add_fault(PeerFault fault) {
  const std::lock_guard lock(mutex_);
  faults_.push_back(std::move(fault));
}

void HubPeer::set_false_sha256(const std::string& hex) {
  const std::lock_guard lock(mutex_);
  false_sha256_ = hex;
}

void HubPeer::set_ranges(bool has_ranges) {
  const std::lock_guard lock(mutex_);
  has_ranges_ = has_ranges;
}

void HubPeer::set_length(bool has_length) {
  const std::lock_guard lock(mutex_);
  has_length_ = has_length;
}

std::vector<std::string> HubPeer::environment(const std::string& home) const {
  return {str("HOME=", home),
          str("XDG_DATA_HOME=", home, "/data"),
          str("XDG_CACHE_HOME=", home, "/cache"),
          str("XDG_CONFIG_HOME=", home, "/config"),
          str("HF_ENDPOINT=", url()),
          str("MODELSCOPE_DOMAIN=", url()),
          str("GRAFT_OLLAMA_REGISTRY=", url()),
          "HF_HOME=",
          "HF_HUB_CACHE=",
          "HF_HUB_OFFLINE=",
          "HF_TOKEN=",
          "OLLAMA_MODELS=",
          "http_proxy="};
}

std::string HubPeer::published_sha256(const std::string& content) const {
  return false_sha256_.empty() ? sha256_hex(content) : false_sha256_;
}

PeerResponse HubPeer::with_faults(const PeerRequest& request, PeerResponse response) {
  for (PeerFault& fault : faults_) {
    if (fault.times == 0 || request.target.find(fault.target) == std::string::npos) continue;
    --fault.times;
    if (fault.response.status != 200) return fault.response;
    response.break_after = fault.break_after;
    response.pause_ms = fault.pause_ms;
    return response;
  }
  return response;
}

std::optional<PeerResponse> HubPeer::refusal(const PeerRequest& request) {
  if (uses_of_token_ == 0) return std::nullopt;
  const auto token = request.headers.find("authorization");
  const bool is_valid = token != request.headers.end() && uses_left_ > 0 &&
                        token->second == str("Bearer token-", num_tokens_);
  if (is_valid) {
    --uses_left_;
    return std::nullopt;
  }
  return PeerResponse{
      .status = 401,
      .headers = {str("WWW-Authenticate: Bearer realm=\"", url(),
                      "/token\",service=\"peer\",scope=\"repository:library/llama:pull\"")}};
}

PeerResponse HubPeer::answer(const PeerRequest& request, bool is_storage) {
  const std::lock_guard lock(mutex_);
  if (is_storage) {
    const auto blob = blobs_.find(after(request.target, "/storage/"));
    if (blob == blobs_.end()) return {.status = 404};
    return with_faults(request, {.headers = {str("ETag: \"", blob->first, "\"")},
                                 .body = blob->second,
                                 .has_ranges = has_ranges_,
                                 .has_length = has_length_});
  }
  const auto token = request.headers.find("authorization");
  const bool is_allowed =
      token_.empty() || (token != request.headers.end() && token->second == "Bearer " + token_);
  if (!is_allowed) return {.status = 401, .headers = {"X-Error-Code: GatedRepo"}};
  return with_faults(request, hub_answer(request));
}

PeerResponse HubPeer::file_answer(const std::string& content) {
  if (content.size() <= kMaxSmallBytes) return {.body = content, .has_ranges = has_ranges_};
  return {.status = 302,
          .headers = {str("Location: ", storage_.url(), "/storage/", sha256_hex(content)),
                      str("X-Linked-Etag: \"", published_sha256(content), "\""),
                      str("X-Linked-Size: ", content.size()), str("X-Repo-Commit: ", kCommit)}};
}

std::string HubPeer::hugging_face_list(const std::string& repo) const {
  Json siblings = Json::array();
  for (const auto& [path, content] : repos_.at(repo)) {
    Json entry = {{"rfilename", path}, {"size", content.size()}, {"blobId", git_sha1_hex(content)}};
    if (content.size() > kMaxSmallBytes)
      entry["lfs"] = {{"sha256", published_sha256(content)}, {"size", content.size()}};
    siblings.push_back(entry);
  }
  return Json{{"id", repo}, {"sha", kCommit}, {"siblings", siblings}}.dump();
}

std::string HubPeer::modelscope_list(const std::string& repo) const {
  Json files = Json::array({{{"Path", "folder"}, {"Type", "tree"}, {"Size", 0}}});
  for (const auto& [path, content] : repos_.at(repo)) {
    files.push_back({{"Path", path},
                     {"Type", "blob"},
                     {"Size", content.size()},
                     {"Sha256", published_sha256(content)}});
  }
  return Json{{"Code", 200}, {"Success", true}, {"Data", {{"Files", files}}}}.dump();
}

PeerResponse HubPeer::hub_answer(const PeerRequest& request) {
  const std::string& target = request.target;
  if (target == "/token?service=peer&scope=repository%3Alibrary/llama%3Apull") {
    uses_left_ = uses_of_token_;
    return {.body = Json{{"token", str("token-", ++num_tokens_)}}.dump()};
  }
  if (const std::string list = after(target, "/api/models/"); !list.empty()) {
    const std::string repo = until(list, "/revision/");
    if (!repos_.contains(repo)) return {.status = 404};
    return {.body = hugging_face_list(repo)};
  }
  if (const std::string path = after(target, "/api/v1/models/"); !path.empty()) {
    const bool is_list = path.find("/repo/files?") != std::string::npos;
    const std::string repo = until(path, is_list ? "/repo/files?" : "/repo?");
    if (!repos_.contains(repo)) return {.status = 404};
    if (is_list) return {.body = modelscope_list(repo)};
    const std::string file = path.substr(path.find("FilePath=") + 9);
    const auto found = repos_[repo].find(file);
    if (found == repos_[repo].end()) return {.status = 404};
    return {.body = found->second, .has_ranges = has_ranges_};
  }
  if (const std::string path = after(target, "/v2/"); !path.empty()) {
    if (auto refused = refusal(request)) return *refused;
    if (const auto manifest = manifests_.find(path); manifest != manifests_.end())
      return {.body = manifest->second};
    const auto blob = blobs_.find(path.substr(std::min(path.size(), path.find("sha256:") + 7)));
    return blob == blobs_.end() ? PeerResponse{.status = 404} : file_answer(blob->second);
  }
  const std::size_t resolve = target.find("/resolve/");
  if (resolve == std::string::npos) return {.status = 404};
  const std::string repo = target.substr(1, resolve - 1);
  const std::size_t begin = target.find('/', resolve + std::string("/resolve/").size()) + 1;
  const auto found = repos_[repo].find(target.substr(begin));
  return found == repos_[repo].end() ? PeerResponse{.status = 404} : file_answer(found->second);
}

}  // namespace graft::hub::testing
