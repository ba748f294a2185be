// The web origins whose pages may use the server (CORS).

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft::server {

class AllowedOrigins {
 public:
  // Besides the default ones, which are Ollama's: pages of this machine on any port, and desktop
  // applications (app://, file://, tauri://, vscode-webview://, vscode-file://). A * at the end of
  // a pattern matches anything.
  explicit AllowedOrigins(std::vector<std::string> patterns = {});

  bool allows(std::string_view origin) const;

 private:
  std::vector<std::string> patterns_;
};

}  // namespace graft::server
