#include "graft/server/static_files.h"

#include <algorithm>

namespace graft::server {

std::span<const StaticFile> static_files() {
  return {};
}

void add_static_routes(Router& router) {
  for (const StaticFile& file : static_files()) {
    router.add_plain("GET", std::string(file.path), [&file](const http::Request&) {
      return http::Response{.body = std::string(file.bytes),
                            .content_type = std::string(file.content_type)};
    });
  }
  if (std::ranges::find(static_files(), "/", &StaticFile::path) != static_files().end()) return;
  // Clients of Ollama look here to see whether it is there.
  router.add_plain("GET", "/", [](const http::Request&) {
    return http::Response{
        .body = "graft is running. Ollama is running (the same API is at /api).\n",
        .content_type = "text/plain; charset=utf-8"};
  });
}

}  // namespace graft::server
