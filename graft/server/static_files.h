// The web pages, embedded in the binary. cmake/embed.cmake generates the table from web/dist.

#pragma once

#include <span>
#include <string_view>

#include "graft/server/router.h"

namespace graft::server {

struct StaticFile {
  std::string_view path;  // "/", "/status", "/assets/index-1a2b3c4d.js"
  std::string_view content_type;
  std::string_view bytes;
};

std::span<const StaticFile> static_files();

// Files under /assets/ have a content hash in their name and are cached forever; pages are
// revalidated.
http::Response static_response(const StaticFile& file);

void add_static_routes(Router& router);

}  // namespace graft::server
