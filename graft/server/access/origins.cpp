#include "graft/server/access/origins.h"

#include <algorithm>
#include <utility>

namespace graft::server {
namespace {

bool matches(std::string_view origin, std::string_view pattern) {
  if (!pattern.ends_with('*')) return origin == pattern;
  return origin.starts_with(pattern.substr(0, pattern.size() - 1));
}

}  // namespace

AllowedOrigins::AllowedOrigins(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {
  for (const char* scheme : {"http://", "https://"}) {
    for (const char* host : {"localhost", "127.0.0.1", "0.0.0.0", "[::1]"}) {
      patterns_.push_back(std::string(scheme) + host);
      patterns_.push_back(std::string(scheme) + host + ":*");
    }
  }
  for (const char* scheme : {"app", "file", "tauri", "vscode-webview", "vscode-file"})
    patterns_.push_back(std::string(scheme) + "://*");
}

bool AllowedOrigins::allows(std::string_view origin) const {
  return std::ranges::any_of(patterns_,
                             [&](const std::string& pattern) { return matches(origin, pattern); });
}

}  // namespace graft::server
