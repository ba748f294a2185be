#include "graft/server/static_files.h"

namespace graft::server {
namespace {

// Content-Security-Policy: same origin only, no inline scripts, no embedding in frames.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// Browsers send Accept: text/html for a typed address; API clients send */* or nothing.
bool wants_page(const http::Request& request) {
  return request.header("accept").find("text/html") != std::string_view::npos;
}

// Ollama's clients probe / for "Ollama is running".
http::Response greeting() {
  return {.body = "graft is running. Ollama is running (the same API is at /api).\n",
          .content_type = "text/plain; charset=utf-8",
          .headers = {{.name = "Vary", .value = "Accept"}}};
}

}  // namespace

http::Response static_response(const StaticFile& file) {
  const bool is_asset = file.path.starts_with("/assets/");
  http::Response response = {
      .body = std::string(file.bytes),
      .content_type = std::string(file.content_type),
      .headers = {{.name = "Cache-Control",
                   .value = is_asset ? "public, max-age=31536000, immutable" : "no-cache"},
                  {.name = "Content-Security-Policy", .value = kPolicy},
                  {.name = "Referrer-Policy", .value = "no-referrer"},
                  {.name = "X-Content-Type-Options", .value = "nosniff"}}};
  if (file.path == "/") response.headers.push_back({.name = "Vary", .value = "Accept"});
  return response;
}

void add_static_routes(Router& router) {
  for (const StaticFile& file : static_files()) {
    router.add_sync("GET", std::string(file.path), [&file](const http::Request& request) {
      return file.path == "/" && !wants_page(request) ? greeting() : static_response(file);
    });
  }
}

}  // namespace graft::server
