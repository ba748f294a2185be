// A server for tests that speaks the protocols of Hugging Face, ModelScope and Ollama's registry.
// Large files are redirected to a second host, as by the hubs.

#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "graft/testing/hub/http_peer.h"

namespace graft::hub::testing {

// What goes wrong with requests whose target contains a text.
struct PeerFault {
  std::string target;
  int times = 1;
  PeerResponse response = {};                 // with a status other than 200: sent instead
  std::size_t break_after = ~std::size_t{0};  // of the right response
  int pause_ms = 0;
};

class HubPeer {
 public:
  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";
  // Files over this size have a SHA-256 and are redirected; others a git hash.
  static constexpr std::size_t kMaxSmallBytes = 1000;

  HubPeer();

  // A file of org/repo, on Hugging Face and on ModelScope.
  void add_file(const std::string& repo, const std::string& path, std::string content);
  // A model of the registry: layers by kind ("model", "template", "params").
  void add_ollama(const std::string& repo,
                  const std::string& tag,
                  const std::map<std::string, std::string>& layers);
  // Requests need this token, except on the second host.
  void set_token(const std::string& token);
  // Requests to the registry need tokens that it gives itself, each for this many requests.
  void give_tokens(int uses);
  void add_fault(PeerFault fault);
  // The hash that is published for every large file; empty: the right one.
  void set_false_sha256(const std::string& hex);
  void set_ranges(bool has_ranges);
  // Whether the second host tells the size of a file that it sends whole.
  void set_length(bool has_length);

  std::string url() const { return hub_.url(); }
  const HttpPeer& hub() const { return hub_; }
  const HttpPeer& storage() const { return storage_; }
  // "NAME=VALUE" of all variables that point graft to this server and to folders in `home`.
  std::vector<std::string> environment(const std::string& home) const;

 private:
  PeerResponse answer(const PeerRequest& request, bool is_storage);
  PeerResponse with_faults(const PeerRequest& request, PeerResponse response);
  // The refusal of the registry; nullopt: the request has a token.
  std::optional<PeerResponse> refusal(const PeerRequest& request);
  PeerResponse hub_answer(const PeerRequest& request);
  PeerResponse file_answer(const std::string& content);
  std::string hugging_face_list(const std::string& repo) const;
  std::string modelscope_list(const std::string& repo) const;
  std::string published_sha256(const std::string& content) const;

  std::mutex mutex_;
  std::map<std::string, std::map<std::string, std::string>> repos_;
  std::map<std::string, std::string> manifests_;  // by "repo/manifests/tag"
  std::map<std::string, std::string> blobs_;      // by SHA-256
  std::vector<PeerFault> faults_;
  std::string token_;
  int uses_of_token_ = 0;  // 0: the registry needs none
  int num_tokens_ = 0;     // that it has given
  int uses_left_ = 0;      // of the last one
  std::string false_sha256_;
  bool has_ranges_ = true;
  bool has_length_ = true;
  HttpPeer storage_;
  HttpPeer hub_;
};

// The hashes that the hubs publish, in hexadecimal.
std::string sha256_hex(const std::string& content);
std::string git_sha1_hex(const std::string& content);

}  // namespace graft::hub::testing
